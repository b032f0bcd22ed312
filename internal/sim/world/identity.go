package world

import "time"

// Credential is a key that signs requests. Those of AssumeRole carry a SessionToken and expire.
type Credential struct {
	AccessKeyID  string    `json:"accessKeyId"`
	Secret       string    `json:"secret"`
	SessionToken string    `json:"sessionToken,omitempty"`
	Account      string    `json:"account"`
	User         string    `json:"user,omitempty"`    // IAM user; "nephele" if empty
	Role         string    `json:"role,omitempty"`    // name of the assumed role
	RoleID       string    `json:"roleId,omitempty"`  // AROA...
	Session      string    `json:"session,omitempty"` // role session name
	Expires      time.Time `json:"expires,omitzero"`  // zero = never
}

// Role is an IAM role that AssumeRole can take on.
type Role struct {
	Account    string   `json:"account"`
	Name       string   `json:"name"`
	Trusted    []string `json:"trusted"` // accounts or ARNs that may assume it
	ExternalID string   `json:"externalId,omitempty"`
	MaxSession int      `json:"maxSessionSeconds,omitempty"` // seconds, 0 = 3600
}

// AssumeRoleInput are the parameters of AssumeRole. DurationSeconds 0 means 3600.
type AssumeRoleInput struct {
	RoleARN, SessionName, ExternalID string
	DurationSeconds                  int
}
