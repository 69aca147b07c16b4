//! What the judge has said of a run, as far as its own time line tells.

use jiff::Timestamp;
use omoi_protocol::SteeringType;

#[derive(Debug, Clone, Default)]
pub struct Judged {
    /// When it was asked last and answered, or did not.
    pub at: Option<Timestamp>,
    /// How often it has failed since it last said something.
    pub failures: u32,
    /// What it said last. A failure says nothing, so it changes nothing here.
    pub last: Option<Said>,
}

#[derive(Debug, Clone)]
pub struct Said {
    pub seq: i64,
    pub at: Timestamp,
    pub opinion: Opinion,
}

/// A judgement, as far as rules look at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Opinion {
    /// From 0 to 1.
    pub score: f64,
    pub steering: Option<Steering>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Steering {
    pub kind: SteeringType,
    pub recommendation: String,
}

impl Judged {
    /// None for a judgement that failed.
    pub fn take(&mut self, opinion: Option<&Opinion>, seq: i64, at: Timestamp) {
        self.at = Some(at);
        match opinion {
            Some(opinion) => {
                self.failures = 0;
                self.last = Some(Said { seq, at, opinion: opinion.clone() });
            }
            None => self.failures = self.failures.saturating_add(1),
        }
    }

    pub fn steering(&self) -> Option<(&Said, &Steering)> {
        let said = self.last.as_ref()?;
        Some((said, said.opinion.steering.as_ref()?))
    }

    pub fn heap_bytes(&self) -> usize {
        self.steering().map_or(0, |(_, steering)| steering.recommendation.capacity())
    }
}
