//! What the model is shown: the conversation as it stands, how large it is, and where it can be cut.

use super::talk::{Block, Message, Role};

/// Bytes of JSON that make about one token, for what no model has counted.
const TOKEN_BYTES: u64 = 4;

#[derive(Debug, Default)]
pub struct Context {
    messages: Vec<Message>,
    /// Of everything up to the last answer, as the model counted.
    counted: u64,
    /// Of what was added since, in bytes.
    added: u64,
}

impl Context {
    pub fn new(messages: Vec<Message>) -> Self {
        let mut context = Self::default();
        for message in messages {
            context.push(message);
        }
        context
    }

    /// What the same side says twice in a row is one message.
    pub fn push(&mut self, message: Message) {
        self.added += size(&message);
        match self.messages.last_mut() {
            Some(last) if last.role == message.role => last.content.extend(message.content),
            _ => self.messages.push(message),
        }
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The model says how many tokens question and answer had.
    pub fn count(&mut self, tokens: u64) {
        if tokens > 0 {
            (self.counted, self.added) = (tokens, 0);
        }
    }

    pub fn tokens(&self) -> u64 {
        self.counted + self.added / TOKEN_BYTES
    }

    /// Where the last messages begin that have at most so many tokens together, with an answer of the model at their
    /// front. None when that would leave nothing out.
    pub fn cut(&self, tokens_max: u64) -> Option<usize> {
        let (mut bytes, mut begin) = (0, self.messages.len());
        for (at, message) in self.messages.iter().enumerate().rev() {
            bytes += size(message);
            if bytes / TOKEN_BYTES > tokens_max {
                break;
            }
            if message.role == Role::Assistant {
                begin = at;
            }
        }
        (begin > 1).then_some(begin)
    }

    /// Puts `head` in the place of everything before `cut`.
    pub fn compact(&mut self, head: Message, cut: usize) -> Vec<Message> {
        let mut messages = vec![head];
        messages.extend(self.messages.drain(..).skip(cut));
        *self = Self::new(messages);
        self.messages.clone()
    }
}

fn size(message: &Message) -> u64 {
    let block = |block: &Block| match block {
        Block::Text { text } => text.len(),
        Block::Thinking { thinking, signature } => thinking.len() + signature.len(),
        Block::RedactedThinking { data } => data.len(),
        Block::ToolUse { name, input, .. } => name.len() + input.to_string().len() + 40,
        Block::ToolResult { content, .. } => content.len() + 40,
    };
    message.content.iter().map(block).sum::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(n: usize) -> [Message; 2] {
        let id = format!("call-{n}");
        [
            Message::assistant(vec![Block::ToolUse {
                id: id.clone(),
                name: "Bash".to_owned(),
                input: json!({}),
            }]),
            Message::user(vec![Block::ToolResult {
                tool_use_id: id,
                content: "x".repeat(400),
                is_error: false,
            }]),
        ]
    }

    fn long(turns: usize) -> Context {
        let first = Message::user(vec![Block::text("the task")]);
        Context::new(std::iter::once(first).chain((0..turns).flat_map(turn)).collect())
    }

    #[test]
    fn what_is_left_after_a_cut_begins_with_an_answer_and_no_result_loses_its_call() {
        let mut context = long(50);
        let cut = context.cut(1000).unwrap();
        assert_eq!(context.messages()[cut].role, Role::Assistant);
        let left = context.messages().len() - cut;
        let now = context.compact(Message::user(vec![Block::text("in short")]), cut);
        assert_eq!((now.len(), now[0].role, now[1].role), (left + 1, Role::User, Role::Assistant));
        assert!(context.tokens() < 1200, "{}", context.tokens());
    }

    #[test]
    fn a_short_context_is_not_cut() {
        assert_eq!(long(2).cut(100_000), None);
        assert_eq!(Context::default().cut(0), None);
    }

    #[test]
    fn one_answer_that_is_larger_than_the_rest_may_be_is_left_out_as_well() {
        let context = long(3);
        assert_eq!(context.cut(1), Some(context.messages().len()));
    }

    #[test]
    fn the_count_of_the_model_is_believed_and_what_came_since_is_estimated() {
        let mut context = long(1);
        context.count(1000);
        context.push(Message::user(vec![Block::text("x".repeat(40))]));
        assert_eq!(context.tokens(), 1010);
    }
}
