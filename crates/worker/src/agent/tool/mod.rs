//! The tools of the built-in agent: what it may do with files and commands, and what it is told of that.

mod tools;

mod input;
mod kind;
mod manual;

mod file;
mod reach;
mod seen;

mod edit;
mod read;
mod write;

mod glob;
mod grep;
mod walk;

mod background;
mod bash;
mod capture;
mod clean;
mod outcome;
mod shell;
mod tree;

#[cfg(test)]
mod tests;

pub use self::{
    kind::Effect,
    reach::{NOTES_FILE, is_note},
    tools::{Around, Call, Done, Piece, Setup, Tools},
};
