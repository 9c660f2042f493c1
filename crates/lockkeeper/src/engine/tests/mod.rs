mod differential;
mod fair;
