//! What is printed: tables for people, JSON for programs.

mod colour;
mod diagnosis;
mod locks;
mod sales;

pub use colour::{Paint, colour_wanted};
pub use diagnosis::{DiagnosisReport, FindingReport, RowReport, write_diagnoses};
pub use locks::{HolderReport, LockReport, LockState, UnlockReport, WaiterReport, write_lock, write_unlock};
pub use sales::{SaleReport, write_sale_line, write_sales};
