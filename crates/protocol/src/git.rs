//! What a mirror takes in a push, as far as worker and server have to agree about it.

/// Rules of `git fsck` that are not applied: slips of old programs that many repositories carry and that harm nobody.
/// Whatever could harm stays an error.
pub const SLIPS: &[&str] = &[
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "missingTaggerEntry",
    "multipleAuthors",
    "nulInCommit",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
];
