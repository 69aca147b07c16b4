//! The program `omoi-launcher`.

fn main() {}
