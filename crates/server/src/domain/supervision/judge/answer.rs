//! What counts as an answer of the judge. There are no defaults for what it thinks: an answer that lacks something, or says
//! what cannot be, is none.

use omoi_protocol::{
    JudgementState, SteeringType,
    guardian::{Judgement, JudgementDetails},
};
use serde::Deserialize;
use serde_json::Value;

use super::super::{
    text::clip,
    trajectory::judged::{Opinion, Steering},
};

const WORD_CHARS: usize = 100;
const TEXT_CHARS: usize = 1_500;
const ITEM_CHARS: usize = 300;
const ITEMS: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

/// As the model hands it in.
#[derive(Deserialize)]
struct Answer {
    current_phase: String,
    trajectory_aligned: bool,
    alignment_score: f64,
    needs_steering: bool,
    steering_type: Option<SteeringType>,
    steering_recommendation: Option<String>,
    trajectory_summary: String,
    current_focus: String,
    #[serde(default)]
    details: JudgementDetails,
}

pub fn read(answer: &Value) -> Result<Judgement, Malformed> {
    let answer =
        Answer::deserialize(answer).map_err(|error| Malformed(clip(&error.to_string(), TEXT_CHARS)))?;
    if !(0.0..=1.0).contains(&answer.alignment_score) {
        return Err(Malformed(format!("alignment_score is {}, not from 0 to 1", answer.alignment_score)));
    }
    let steering = match answer.needs_steering {
        false => None,
        true => Some(steering(answer.steering_type, answer.steering_recommendation)?),
    };
    let text = |text: String| clip(text.trim(), TEXT_CHARS);
    Ok(Judgement {
        current_phase: clip(answer.current_phase.trim(), WORD_CHARS),
        trajectory_aligned: answer.trajectory_aligned,
        alignment_score: answer.alignment_score,
        needs_steering: answer.needs_steering,
        steering_type: steering.as_ref().map(|steering| steering.kind),
        steering_recommendation: steering.map(|steering| steering.recommendation),
        trajectory_summary: text(answer.trajectory_summary),
        current_focus: text(answer.current_focus),
        details: bounded(answer.details),
    })
}

/// What the event of a judgement says: none for one that failed, or that nobody can read.
pub fn opinion(event: &str) -> Option<Opinion> {
    #[derive(Deserialize)]
    struct Event {
        state: JudgementState,
        judgement: Option<Value>,
    }
    let event: Event = serde_json::from_str(event).ok()?;
    let judgement = event.judgement.filter(|_| event.state == JudgementState::Done)?;
    let judgement = read(&judgement).ok()?;
    let steering = judgement.steering_type.zip(judgement.steering_recommendation);
    let steering = steering.map(|(kind, recommendation)| Steering { kind, recommendation });
    Some(Opinion { score: judgement.alignment_score, steering })
}

fn steering(kind: Option<SteeringType>, recommendation: Option<String>) -> Result<Steering, Malformed> {
    let lacks = |what: &str| Malformed(format!("needs_steering is true, and {what} is missing"));
    let kind = kind.ok_or_else(|| lacks("steering_type"))?;
    let recommendation = recommendation.filter(|text| !text.trim().is_empty());
    let recommendation = recommendation.ok_or_else(|| lacks("steering_recommendation"))?;
    Ok(Steering { kind, recommendation: clip(recommendation.trim(), TEXT_CHARS) })
}

fn bounded(details: JudgementDetails) -> JudgementDetails {
    let some = |items: Vec<String>| items.iter().take(ITEMS).map(|item| clip(item, ITEM_CHARS)).collect();
    JudgementDetails {
        phase_alignment: clip(&details.phase_alignment, TEXT_CHARS),
        constraint_violations: some(details.constraint_violations),
        missing_steps: some(details.missing_steps),
        progress_indicators: some(details.progress_indicators),
        risk_factors: some(details.risk_factors),
    }
}
