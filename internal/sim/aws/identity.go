package aws

import (
	"encoding/base32"
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
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

func (r Role) trusts(caller Credential) bool {
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

// Credential looks up an access key. The keys of an expired session are still found, for the wire
// to say so.
func (w *World) Credential(accessKeyID string) (Credential, bool) {
	w.state.RLock()
	defer w.state.RUnlock()
	if c, ok := w.credentials[accessKeyID]; ok {
		return *c, true
	}
	return Credential{}, false
}

// AddCredential adds or replaces a key.
func (w *World) AddCredential(c Credential) error {
	return w.mutate(scope{account: c.Account}, "AddCredential", func(time.Time) ([]string, error) {
		if c.AccessKeyID == "" || c.Secret == "" || w.accounts[c.Account] == nil {
			return nil, invalidValue("a credential needs an access key id, a secret and a known account, not '%s'", c.Account)
		}
		w.credentials[c.AccessKeyID] = &c
		return []string{c.AccessKeyID}, nil
	})
}

// RemoveCredential removes a key, as when it is deactivated.
func (w *World) RemoveCredential(accessKeyID string) error {
	return w.mutate(scope{}, "RemoveCredential", func(time.Time) ([]string, error) {
		if _, ok := w.credentials[accessKeyID]; !ok {
			return nil, invalidValue("there is no access key %s", accessKeyID)
		}
		delete(w.credentials, accessKeyID)
		return []string{accessKeyID}, nil
	})
}

var sessionName = regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)

// AssumeRole gives temporary credentials for a role: AccessDenied when the role is unknown, does
// not trust the caller or wants another external id (the cloud does not say which), ValidationError
// for parameters out of range.
func (w *World) AssumeRole(caller Credential, in AssumeRoleInput) (Credential, error) {
	if !sessionName.MatchString(in.SessionName) {
		return Credential{}, refuse(
			"ValidationError",
			"1 validation error detected: Value '%s' at 'roleSessionName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\w+=,.@-]*",
			in.SessionName,
		)
	}
	if in.DurationSeconds == 0 {
		in.DurationSeconds = 3600
	}
	if in.DurationSeconds < 900 || in.DurationSeconds > 43200 {
		return Credential{}, refuse(
			"ValidationError",
			"1 validation error detected: Value '%d' at 'durationSeconds' failed to satisfy constraint: Member must have value between 900 and 43200",
			in.DurationSeconds,
		)
	}
	var out Credential
	err := w.mutate(scope{account: caller.Account}, "AssumeRole", func(now time.Time) ([]string, error) {
		role := w.roles[in.RoleARN]
		if role == nil || !role.trusts(caller) || role.ExternalID != "" && role.ExternalID != in.ExternalID {
			return nil, &Error{"AccessDenied", "User: " + caller.ARN() + " is not authorized to perform: sts:AssumeRole on resource: " + in.RoleARN, http.StatusForbidden}
		}
		longest := role.MaxSession
		if longest == 0 || caller.Role != "" {
			longest = 3600
		}
		if in.DurationSeconds > longest {
			return nil, refuse("ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
		}
		key, secret, token := w.digest(), w.digest(), w.digest()
		out = Credential{
			AccessKeyID:  "ASIA" + base32.StdEncoding.EncodeToString(key[:])[:16],
			Secret:       base64.StdEncoding.EncodeToString(secret[:30]),
			SessionToken: strings.Repeat("IQoJb3JpZ2luX2Vj", 4) + base64.StdEncoding.EncodeToString(token[:30]),
			Account:      role.Account, Role: role.Name, RoleID: role.ID(), Session: in.SessionName,
			Expires: now.Add(time.Duration(in.DurationSeconds) * time.Second).UTC().Truncate(time.Second),
			Policy:  role.Policy,
		}
		w.forgetExpired(now)
		c := out
		w.credentials[c.AccessKeyID] = &c
		return []string{role.ARN()}, nil
	})
	return out, err
}

// forgetExpired drops session keys that ended more than a day ago, so that a long-lived simulator
// does not collect them.
func (w *World) forgetExpired(now time.Time) {
	for id, c := range w.credentials {
		if !c.Expires.IsZero() && now.Sub(c.Expires) > 24*time.Hour {
			delete(w.credentials, id)
		}
	}
}
