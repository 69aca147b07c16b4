//! What a model is told of each tool. It reads this with every request: short, and all that it needs.

use serde_json::{Value, json};

use super::kind::Kind;
use crate::agent::talk::ToolSpec;

pub fn spec(kind: Kind) -> ToolSpec {
    let (description, properties, required): (&str, Value, &[&str]) = match kind {
        Kind::Read => (READ, read(), &["file_path"]),
        Kind::Write => (WRITE, write(), &["file_path", "content"]),
        Kind::Edit => (EDIT, edit(), &["file_path", "old_string", "new_string"]),
        Kind::Bash => (BASH, bash(), &["command"]),
        Kind::Glob => (GLOB, glob(), &["pattern"]),
        Kind::Grep => (GREP, grep(), &["pattern"]),
    };
    ToolSpec {
        name: kind.name().to_owned(),
        description: description.to_owned(),
        input_schema: json!({ "type": "object", "properties": properties, "required": required }),
    }
}

const READ: &str = "Reads a text file. Each line comes with its number and a tab before it, which are not part of \
the file. Up to 2000 lines at once, longer lines cut at 2000 characters; read further with offset and limit. \
Relative paths are taken from the workspace.";

const WRITE: &str = "Writes a whole file, with the directories on its way. A file that exists has to be Read first \
and is replaced. To change a part of a file, use Edit.";

const EDIT: &str = "Replaces text in a file that was Read before. old_string has to be in the file exactly as given, \
white space included and line numbers left out, and only once, unless replace_all is set: give enough of the lines \
around it. If the file has changed since, Read it again.";

const BASH: &str = "Runs a command in a shell, from the top of the workspace, with nothing on its input. Each call \
is a new shell: `cd` and variables do not carry over, so chain with && or use absolute paths. stdout and stderr come \
back together; of more than 30000 characters the middle is left out, and a file that is named holds the whole. When \
the command ends or its time is up, everything it has started is ended; for servers and other things that go on set \
run_in_background, and read what they write from the file that is named. To look at, search and change files use the \
other tools.";

const GLOB: &str = "Finds files by name: `**/*.rs`, `src/**/{a,b}*.ts`. `*` does not go into directories, `**` does. \
Up to 100 paths, newest first. What .gitignore names is passed over.";

const GREP: &str = "Searches the contents of files with a regular expression (Rust syntax, like ripgrep; escape \
literal braces and brackets). Says which files match, or with output_mode `content` which lines, or with `count` how \
many. What .gitignore names and what is no text is passed over.";

fn read() -> Value {
    json!({
        "file_path": text("The file"),
        "offset": number("The first line to read, from 1"),
        "limit": number("How many lines to read"),
    })
}

fn write() -> Value {
    json!({ "file_path": text("The file"), "content": text("All that is to be in it") })
}

fn edit() -> Value {
    json!({
        "file_path": text("The file"),
        "old_string": text("The text to be replaced"),
        "new_string": text("The text in its place"),
        "replace_all": flag("Replaces every occurrence"),
    })
}

fn bash() -> Value {
    json!({
        "command": text("The command"),
        "timeout": number("Its time limit in milliseconds; 120000 unless told, 3600000 at most"),
        "description": text("What it does, in five to ten words"),
        "run_in_background": flag("Returns at once, and the command goes on until the session ends"),
    })
}

fn glob() -> Value {
    json!({
        "pattern": text("The pattern, from the directory that is looked in"),
        "path": text("The directory to look in; the workspace unless told"),
    })
}

fn grep() -> Value {
    json!({
        "pattern": text("The regular expression"),
        "path": text("The file or directory to search; the workspace unless told"),
        "glob": text("Only files that match, like `*.ts`; with `!` before it, only others"),
        "type": text("Only files of a type, like rust, py, js"),
        "output_mode": {
            "type": "string", "enum": ["content", "files_with_matches", "count"],
            "description": "What to show; files_with_matches unless told",
        },
        "-i": flag("Ignores upper and lower case"),
        "-n": flag("Shows line numbers in content; true unless told"),
        "-A": number("Lines to show after each match"),
        "-B": number("Lines to show before each match"),
        "-C": number("Lines to show before and after each match"),
        "head_limit": number("How many lines of answer to show; 250 unless told"),
        "multiline": flag("Lets a match go over lines, and `.` match line ends"),
    })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number(description: &str) -> Value {
    json!({ "type": "integer", "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}
