package lockkeeper.interop;

import java.util.List;

/** One line of input, taken apart. */
record Request(String number, String thread, String object, String method, String name, List<String> arguments) {
    static Request parse(String line) {
        List<String> words = List.of(line.split(" "));
        if (words.size() < 5) {
            throw new IllegalArgumentException("not a request: " + line);
        }
        return new Request(words.get(0), words.get(1), words.get(2), words.get(3), words.get(4),
                words.subList(5, words.size()));
    }

    String text(int index) {
        return arguments.get(index);
    }

    long number(int index) {
        return Long.parseLong(text(index));
    }

    int count(int index) {
        return Integer.parseInt(text(index));
    }

    boolean has(int count) {
        return arguments.size() == count;
    }

    UnsupportedOperationException unknown() {
        return new UnsupportedOperationException(object + " " + method + " with " + arguments.size() + " arguments");
    }
}
