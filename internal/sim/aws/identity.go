package aws

import (
	"encoding/base32"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/iam"
)

// Credential is a key that signs requests. Credentials of AssumeRole carry a SessionToken and
// expire.
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
	// Policy says what the caller may do; nil = everything.
	Policy *iam.Policy `json:"policy,omitempty"`
}

// ARN is the Amazon resource name of the caller, as GetCallerIdentity prints it.
func (c Credential) ARN() string {
	if c.Role != "" {
		return "arn:aws:sts::" + c.Account + ":assumed-role/" + c.Role + "/" + c.Session
	}
	return "arn:aws:iam::" + c.Account + ":user/" + c.userName()
}

func (c Credential) userName() string {
	if c.User == "" {
		return "nephele"
	}
	return c.User
}

// UserID is the caller's unique id, as GetCallerIdentity prints it: AROA...:session for a role,
// AIDA... for a user.
func (c Credential) UserID() string {
	if c.Role != "" {
		return c.RoleID + ":" + c.Session
	}
	return "AIDA" + upperID(c.Account+"/"+c.userName())
}

// Role is an IAM role that AssumeRole can take on.
type Role struct {
	Account    string   `json:"account"`
	Name       string   `json:"name"`
	Trusted    []string `json:"trusted"`                     // account ids or caller ARNs that may assume it
	ExternalID string   `json:"externalId,omitempty"`        // must be given by the caller when set
	MaxSession int      `json:"maxSessionSeconds,omitempty"` // seconds; 0 = 3600
	// Policy says what the role's sessions may do; nil = everything.
	Policy *iam.Policy `json:"policy,omitempty"`
}

// ARN is the Amazon resource name of the role.
func (r Role) ARN() string { return "arn:aws:iam::" + r.Account + ":role/" + r.Name }

// ID is the unique id of the role, AROA and 17 characters.
func (r Role) ID() string { return "AROA" + upperID(r.ARN()) }

// Trusts reports whether a caller may assume the role.
func (r Role) Trusts(caller Credential) bool {
	return slices.Contains(r.Trusted, caller.Account) || slices.Contains(r.Trusted, caller.ARN()) ||
		slices.Contains(r.Trusted, "arn:aws:iam::"+caller.Account+":root")
}

// upperID returns 17 characters A-Z and 2-7 that depend on s only.
func upperID(s string) string {
	d := hash(s)
	return base32.StdEncoding.EncodeToString(d[:])[:17]
}

// AssumeRoleInput are the parameters of AssumeRole. DurationSeconds 0 means 3600.
type AssumeRoleInput struct {
	RoleARN, SessionName, ExternalID string
	DurationSeconds                  int
}
