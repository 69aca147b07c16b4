//! The phases a spec goes through, in their order.

pub use crate::SpecPhase as Phase;

impl Phase {
    /// The phase that follows when all of them are gone through.
    pub fn next(self) -> Option<Self> {
        Self::ALL.get(self as usize + 1).copied()
    }

    /// Those whose outputs this one may build on.
    pub fn before(self) -> &'static [Self] {
        &Self::ALL[..self as usize]
    }

    /// A spec's progress in per cent when this phase starts.
    pub const fn progress_started(self) -> u8 {
        match self {
            Self::Explore => 0,
            Self::Prd => 16,
            Self::Requirements => 32,
            Self::Design => 48,
            Self::Tasks => 64,
            Self::Sync => 80,
        }
    }

    /// A spec's progress in per cent when this phase is completed.
    pub const fn progress_completed(self) -> u8 {
        match self {
            Self::Explore => Self::Prd.progress_started(),
            Self::Prd => Self::Requirements.progress_started(),
            Self::Requirements => Self::Design.progress_started(),
            Self::Design => Self::Tasks.progress_started(),
            Self::Tasks => Self::Sync.progress_started(),
            Self::Sync => 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_follows_all_before_it() {
        for (at, phase) in Phase::ALL.iter().enumerate() {
            assert_eq!(phase.before(), &Phase::ALL[..at]);
            assert_eq!(phase.next(), Phase::ALL.get(at + 1).copied());
        }
        assert_eq!((Phase::Explore.next(), Phase::Sync.next()), (Some(Phase::Prd), None));
    }
}
