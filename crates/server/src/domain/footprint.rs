//! Footprints: which files a task means to change, as globs, and which it was seen to change. Two that overlap may end
//! in a merge that somebody has to sort out.
//!
//! In a glob `*` and `?` stay within a directory and `**` goes through them; a trailing `/` means all that is below.
//! Brackets and braces are taken for any text: an overlap is a hint, and one too many is better than one missed.

use std::collections::BTreeSet;

/// So many files of an overlap are named.
pub const FILES_MAX: usize = 20;
/// More globs of one task are not compared.
const GLOBS_MAX: usize = 200;

#[derive(Debug, Clone, Default)]
pub struct Footprint {
    globs: Vec<(String, Vec<Token>)>,
    paths: BTreeSet<String>,
}

impl Footprint {
    pub fn new(declared: Vec<String>) -> Self {
        let globs = declared.into_iter().take(GLOBS_MAX).map(|glob| {
            let tokens = parse(&glob);
            (glob, tokens)
        });
        Self { globs: globs.collect(), paths: BTreeSet::new() }
    }

    pub fn seen(&mut self, path: String) {
        self.paths.insert(path);
    }

    /// What both touch: paths where there are some, globs otherwise; none if they keep apart.
    pub fn overlap(&self, other: &Self) -> Vec<String> {
        let mut files: BTreeSet<String> =
            self.paths.intersection(&other.paths).take(FILES_MAX).cloned().collect();
        for (globs, paths) in [(&self.globs, &other.paths), (&other.globs, &self.paths)] {
            if globs.is_empty() || files.len() >= FILES_MAX {
                continue;
            }
            let both = paths.iter().filter(|path| {
                let path = literal(path);
                globs.iter().any(|(_, glob)| meet(glob, &path))
            });
            files.extend(both.take(FILES_MAX - files.len()).cloned());
        }
        for (one, tokens) in &self.globs {
            for (another, others) in &other.globs {
                if files.len() < FILES_MAX && meet(tokens, others) {
                    files.insert(if one == another { one.clone() } else { format!("{one} and {another}") });
                }
            }
        }
        files.into_iter().take(FILES_MAX).collect()
    }
}

/// Whether a path fits one of these globs.
pub fn covers(globs: &[String], path: &str) -> bool {
    let path = literal(path);
    globs.iter().any(|glob| meet(&parse(glob), &path))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    /// One character within a directory.
    One,
    /// Any text within a directory.
    Some,
    /// Any text.
    Any,
    /// Stands before `**/` and lets a text pass over the whole of it.
    Maybe,
}

impl Token {
    fn repeats(self) -> bool {
        matches!(self, Self::Some | Self::Any)
    }

    /// Whether there is a character that both take.
    fn shares(self, other: Self) -> bool {
        match (self, other) {
            (Self::Char(a), Self::Char(b)) => a == b,
            (Self::Maybe, _) | (_, Self::Maybe) => false,
            (Self::Char(c), Self::One | Self::Some) | (Self::One | Self::Some, Self::Char(c)) => c != '/',
            _ => true,
        }
    }
}

fn literal(path: &str) -> Vec<Token> {
    path.chars().map(Token::Char).collect()
}

fn parse(glob: &str) -> Vec<Token> {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let mut tokens = Vec::with_capacity(glob.len());
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("**/") && matches!(tokens.last(), None | Some(Token::Char('/'))) {
            tokens.push(Token::Maybe);
        }
        let (token, used) = match c {
            '*' => {
                let stars = rest.bytes().take_while(|byte| *byte == b'*').count();
                (if stars > 1 { Token::Any } else { Token::Some }, stars)
            }
            '?' => (Token::One, 1),
            '[' | '{' => {
                let end = rest.find(if c == '[' { ']' } else { '}' });
                end.map_or((Token::Char(c), 1), |end| (Token::Any, end + 1))
            }
            c => (Token::Char(c), c.len_utf8()),
        };
        tokens.push(token);
        rest = &rest[used..];
    }
    if glob.ends_with('/') {
        tokens.push(Token::Any);
    }
    tokens
}

/// Whether some text fits both. Walks all pairs of places that a text may lead to, each once.
fn meet(a: &[Token], b: &[Token]) -> bool {
    let same = a.iter().zip(b).take_while(|(x, y)| x == y && matches!(x, Token::Char(_))).count();
    if let (Some(Token::Char(x)), Some(Token::Char(y))) = (a.get(same), b.get(same))
        && x != y
    {
        return false;
    }
    let width = b.len() + 1;
    let mut seen = vec![false; (a.len() + 1) * width];
    let mut open = vec![(same, same)];
    while let Some((i, j)) = open.pop() {
        if std::mem::replace(&mut seen[i * width + j], true) {
            continue;
        }
        if (i, j) == (a.len(), b.len()) {
            return true;
        }
        open.extend(skips(a, i).map(|i| (i, j)));
        open.extend(skips(b, j).map(|j| (i, j)));
        if let (Some(x), Some(y)) = (a.get(i), b.get(j))
            && x.shares(*y)
        {
            open.push((i + usize::from(!x.repeats()), j + usize::from(!y.repeats())));
        }
    }
    false
}

/// Where a text may be without another character: past what repeats, and past `**/` as a whole.
fn skips(tokens: &[Token], at: usize) -> impl Iterator<Item = usize> {
    let steps: &[usize] = match tokens.get(at) {
        Some(Token::Maybe) => &[1, 3],
        Some(Token::Some | Token::Any) => &[1],
        Some(Token::Char(_) | Token::One) | None => &[],
    };
    steps.iter().map(move |step| at + step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_meet_where_a_path_fits_both() {
        let table = [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src/b.rs", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/**", "src/deep/a.rs", true),
            ("src/**/a.rs", "src/a.rs", true),
            ("src/**/a.rs", "src/x/y/a.rs", true),
            ("src/**/a.rs", "src/xa.rs", false),
            ("**/a.rs", "a.rs", true),
            ("src/", "src/deep/a.rs", true),
            ("./src/a.rs", "src/a.rs", true),
            ("src/?.rs", "src/a.rs", true),
            ("src/?.rs", "src/ab.rs", false),
            ("src/*.rs", "src/a*", true),
            ("src/*.rs", "src/*.ts", false),
            ("src/**", "**/*.md", true),
            ("src/**", "docs/**", false),
            ("a/*/c", "a/b/*", true),
            ("src/[ab].rs", "src/a.rs", true),
            ("src/{a,b}.rs", "src/b.rs", true),
            ("src/[a", "src/[a", true),
            ("ü/*", "ü/ß", true),
        ];
        for (a, b, expected) in table {
            assert_eq!(meet(&parse(a), &parse(b)), expected, "{a} and {b}");
            assert_eq!(meet(&parse(b), &parse(a)), expected, "{b} and {a}");
        }
    }

    fn footprint(globs: &[&str], paths: &[&str]) -> Footprint {
        let mut footprint = Footprint::new(globs.iter().map(|glob| (*glob).to_owned()).collect());
        paths.iter().for_each(|path| footprint.seen((*path).to_owned()));
        footprint
    }

    #[test]
    fn an_overlap_names_the_files() {
        let table: &[(Footprint, Footprint, &[&str])] = &[
            (footprint(&[], &["a", "b"]), footprint(&[], &["b", "c"]), &["b"]),
            (footprint(&["src/**"], &[]), footprint(&[], &["src/a", "docs/b"]), &["src/a"]),
            (footprint(&[], &["src/a"]), footprint(&["src/**"], &[]), &["src/a"]),
            (footprint(&["src/**"], &[]), footprint(&["src/**"], &[]), &["src/**"]),
            (footprint(&["src/**"], &[]), footprint(&["**/*.rs"], &[]), &["src/** and **/*.rs"]),
            (footprint(&["src/**"], &["x"]), footprint(&["docs/**"], &["y"]), &[]),
            (footprint(&[], &[]), footprint(&["**"], &["y"]), &[]),
        ];
        for (one, other, files) in table {
            assert_eq!(one.overlap(other), *files, "{one:?} and {other:?}");
        }
    }

    #[test]
    fn only_the_first_files_are_named() {
        let many: Vec<String> = (0..100).map(|n| format!("f{n:03}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let files = footprint(&["**"], &names).overlap(&footprint(&["**"], &names));
        assert_eq!((files.len(), files[0].as_str()), (FILES_MAX, "f000"));
    }
}
