package store

import (
	"encoding/base32"
	"encoding/base64"
	"regexp"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// Credential looks up an access key. The keys of an expired session are still found, for the wire
// to say so.
func (w *Store) Credential(accessKeyID string) (aws.Credential, bool) {
	w.state.RLock()
	defer w.state.RUnlock()
	if c, ok := w.credentials[accessKeyID]; ok {
		return *c, true
	}
	return aws.Credential{}, false
}

// AddCredential adds or replaces a key.
func (w *Store) AddCredential(c aws.Credential) error {
	return w.mutate(scope{account: c.Account}, "AddCredential", func(time.Time) ([]string, error) {
		if c.AccessKeyID == "" || c.Secret == "" || w.accounts[c.Account] == nil {
			return nil, aws.InvalidValue("a credential needs an access key id, a secret and a known account, not '%s'", c.Account)
		}
		w.credentials[c.AccessKeyID] = &c
		return []string{c.AccessKeyID}, nil
	})
}

// RemoveCredential removes a key, as when it is deactivated.
func (w *Store) RemoveCredential(accessKeyID string) error {
	return w.mutate(scope{}, "RemoveCredential", func(time.Time) ([]string, error) {
		if _, ok := w.credentials[accessKeyID]; !ok {
			return nil, aws.InvalidValue("there is no access key %s", accessKeyID)
		}
		delete(w.credentials, accessKeyID)
		return []string{accessKeyID}, nil
	})
}

var sessionName = regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)

// AssumeRole gives temporary credentials for a role: AccessDenied when the role is unknown, does
// not trust the caller or wants another external id (the cloud does not say which), ValidationError
// for parameters out of range.
func (w *Store) AssumeRole(caller aws.Credential, in aws.AssumeRoleInput) (aws.Credential, error) {
	if !sessionName.MatchString(in.SessionName) {
		return aws.Credential{}, aws.Refuse(
			"ValidationError",
			"1 validation error detected: Value '%s' at 'roleSessionName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\w+=,.@-]*",
			in.SessionName,
		)
	}
	if in.DurationSeconds == 0 {
		in.DurationSeconds = 3600
	}
	if in.DurationSeconds < 900 || in.DurationSeconds > 43200 {
		return aws.Credential{}, aws.Refuse(
			"ValidationError",
			"1 validation error detected: Value '%d' at 'durationSeconds' failed to satisfy constraint: Member must have value between 900 and 43200",
			in.DurationSeconds,
		)
	}
	var out aws.Credential
	err := w.mutate(scope{account: caller.Account}, "AssumeRole", func(now time.Time) ([]string, error) {
		role := w.roles[in.RoleARN]
		if role == nil || !role.Trusts(caller) || role.ExternalID != "" && role.ExternalID != in.ExternalID {
			return nil, &aws.Error{Code: "AccessDenied", Message: "User: " + caller.ARN() + " is not authorized to perform: sts:AssumeRole on resource: " + in.RoleARN, HTTPStatus: 403}
		}
		longest := role.MaxSession
		if longest == 0 || caller.Role != "" {
			longest = 3600
		}
		if in.DurationSeconds > longest {
			return nil, aws.Refuse("ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
		}
		key, secret, token := w.digest(), w.digest(), w.digest()
		out = aws.Credential{
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
func (w *Store) forgetExpired(now time.Time) {
	for id, c := range w.credentials {
		if !c.Expires.IsZero() && now.Sub(c.Expires) > 24*time.Hour {
			delete(w.credentials, id)
		}
	}
}
