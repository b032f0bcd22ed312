package azure

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// Principal is an identity that can call: an application (service principal) or a managed identity.
type Principal struct {
	Tenant   string `json:"tenant"`
	ClientID string `json:"clientId"`
	ObjectID string `json:"objectId"`
	Name     string `json:"name,omitempty"`
	// Secrets are its client secrets.
	Secrets []string `json:"secrets,omitempty"`
	// Certificates are certificates in PEM that its assertions may be signed with.
	Certificates []string `json:"certificates,omitempty"`
	// Federated are the foreign tokens that it may come with.
	Federated []Federation `json:"federated,omitempty"`
	// Managed is the resource id of a managed identity; empty for applications. System says that it
	// is the one that the metadata service gives to callers who name none.
	Managed string `json:"managed,omitempty"`
	System  bool   `json:"system,omitempty"`
	// Disabled principals get no tokens, and theirs are not accepted any more.
	Disabled bool `json:"disabled,omitempty"`
	// Assignments are its roles; nil means that it may do everything in its tenant.
	Assignments []Assignment `json:"assignments"`
}

// Federation is a foreign issuer's token that represents a principal.
type Federation struct {
	Issuer   string `json:"issuer"`
	Subject  string `json:"subject"`
	Audience string `json:"audience,omitempty"` // empty is api://AzureADTokenExchange
	// Key is the issuer's public key in PEM.
	Key string `json:"key"`
}

// Assignment is a role at a scope.
type Assignment struct {
	Scope string `json:"scope"`
	Role  Role   `json:"role"`
}

// Role is a role definition as far as it concerns Resource Manager.
type Role struct {
	Name       string   `json:"name"`
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions,omitempty"`
	// AssignableScopes are where the role may be assigned.
	AssignableScopes []string `json:"assignableScopes,omitempty"`
}

// ParseRole reads a role definition in the form of `az role definition create`.
func ParseRole(raw []byte) (Role, error) {
	var r Role
	if err := json.Unmarshal(raw, &r); err != nil { // names of members match in any case
		return Role{}, fmt.Errorf("read the role definition: %w", err)
	}
	if r.Name == "" || len(r.Actions) == 0 {
		return Role{}, fmt.Errorf("the role definition has no name or no actions")
	}
	for _, a := range append(append([]string(nil), r.Actions...), r.NotActions...) {
		if a != "*" && strings.Count(a, "/") < 2 && !strings.HasPrefix(a, "*/") && !strings.HasSuffix(a, "/*") {
			return Role{}, fmt.Errorf("the role definition has %q, which is not an operation of a resource provider", a)
		}
	}
	return r, nil
}

// allows reports whether the role contains the action.
func (r *Role) allows(action string) bool {
	return anyMatches(r.Actions, action) && !anyMatches(r.NotActions, action)
}

func anyMatches(patterns []string, action string) bool {
	for _, p := range patterns {
		if like(strings.ToLower(p), strings.ToLower(action)) {
			return true
		}
	}
	return false
}

// like matches * with any text.
func like(pattern, text string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	for i := 0; i <= len(text); i++ {
		if like(rest, text[i:]) {
			return true
		}
	}
	return false
}

// May reports whether the principal may do the action on the resource.
func (p *Principal) May(action, resource string) bool {
	if p.Assignments == nil {
		return true
	}
	for _, a := range p.Assignments {
		if document.Within(resource, a.Scope) && a.Role.allows(action) {
			return true
		}
	}
	return false
}

// RolesAt are the roles that the principal has at a scope.
func (p *Principal) RolesAt(scope string) []Role {
	if p.Assignments == nil {
		return []Role{{Name: "Owner", Actions: []string{"*"}}}
	}
	var out []Role
	for _, a := range p.Assignments {
		if document.Within(scope, a.Scope) {
			out = append(out, a.Role)
		}
	}
	return out
}

// Authorize refuses what the principal may not do on the resource.
func (p *Principal) Authorize(action, resource string) error {
	if p.May(action, resource) {
		return nil
	}
	return document.Refuse(http.StatusForbidden, "AuthorizationFailed", "The client '%s' with object id '%s' does not have authorization to perform "+
		"action '%s' over scope '%s' or the scope is invalid. If access was recently granted, please refresh your credentials.",
		p.ClientID, p.ObjectID, action, resource)
}

// link refuses a reference to a resource that the principal may not join others to.
func (p *Principal) link(action, resource, linked string) error {
	if p.May(action, linked) {
		return nil
	}
	return document.Refuse(http.StatusForbidden, "LinkedAuthorizationFailed", "The client '%s' with object id '%s' has permission to perform action "+
		"on scope '%s'; however, it does not have permission to perform action(s) '%s' on the linked scope(s) '%s' (respectively) or the linked "+
		"scope(s) are invalid.", p.ClientID, p.ObjectID, resource, action, linked)
}

// sees reports whether the principal has any role at, above or below the scope.
func (p *Principal) sees(scope string) bool {
	if p.Assignments == nil {
		return true
	}
	for _, a := range p.Assignments {
		if document.Within(scope, a.Scope) || document.Within(a.Scope, scope) {
			return true
		}
	}
	return false
}
