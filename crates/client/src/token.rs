//! Operator tokens and the audit trail.

use omoi_protocol::{
    TokenId,
    page::Page,
    token::{AuditEntry, AuditVerdict, NewToken, Token, TokenCreated},
};

use crate::{Client, Error};

impl Client {
    pub async fn token_list(&self, limit: usize, cursor: Option<&str>) -> Result<Page<Token>, Error> {
        self.get("/api/v1/tokens").query(&(("limit", limit), ("cursor", cursor))).json().await
    }

    pub async fn token_create(&self, new: &NewToken) -> Result<TokenCreated, Error> {
        self.post("/api/v1/tokens").body(new).json().await
    }

    pub async fn token_revoke(&self, id: &TokenId) -> Result<Token, Error> {
        self.delete(&format!("/api/v1/tokens/{id}")).json().await
    }

    /// Newest first.
    pub async fn audit_list(&self, limit: usize, cursor: Option<&str>) -> Result<Page<AuditEntry>, Error> {
        self.get("/api/v1/audit").query(&(("limit", limit), ("cursor", cursor))).json().await
    }

    pub async fn audit_verify(&self) -> Result<AuditVerdict, Error> {
        self.get("/api/v1/audit/verify").json().await
    }
}
