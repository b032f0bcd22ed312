// Package rights writes the custom role that the Azure adapter needs, for the subscription and the
// resource groups that its user names.
//
// It owns what of the published role narrows, and how. It promises that a role never permits more
// than the published one and what is asked for by name, nor can be assigned elsewhere than at the
// named places. Everything here is a pure function.
package rights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Mode says what the role is for.
type Mode string

// The modes.
const (
	// Plan permits to look only.
	Plan Mode = "plan"
	// Enforce permits everything that is needed.
	Enforce Mode = "enforce"
)

// Pins narrow a role. What is left out is not narrowed.
type Pins struct {
	Mode Mode
	// Name is what the role is called, in place of its usual name. A name is used once in a tenant.
	Name string
	// Subscription is the subscription that the role can be assigned in, and Groups the resource
	// groups there; none are all of them.
	Subscription string
	Groups       []string
	// NodeRoutes adds the right to write routes to Nodes into route tables.
	NodeRoutes bool
}

// routeActions write routes to Nodes; what else that needs is in the published role.
func routeActions() []string {
	return []string{"Microsoft.Network/routeTables/routes/write", "Microsoft.Network/routeTables/routes/delete"}
}

var (
	subscriptionForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	groupForm        = regexp.MustCompile(`^[\p{L}\p{N}_().-]{0,89}[\p{L}\p{N}_()-]$`)
	nameForm         = regexp.MustCompile(`^[\p{L}\p{N}]([\p{L}\p{N} _().-]{0,126}[\p{L}\p{N}_().-])?$`)
)

// nobody is the subscription in the published role, a placeholder for the one that is not known.
const nobody = "00000000-0000-0000-0000-000000000000"

// Check returns what is wrong with pins: "FIELD VALUE: what is expected".
func (p Pins) Check() error {
	switch {
	case p.Mode != Plan && p.Mode != Enforce:
		return fmt.Errorf("mode %q: want %s or %s", p.Mode, Plan, Enforce)
	case p.Name != "" && !nameForm.MatchString(p.Name):
		return fmt.Errorf("name %q: want at most 128 letters, digits, spaces and _ ( ) . -", p.Name)
	case p.Subscription != "" && (!subscriptionForm.MatchString(p.Subscription) || p.Subscription == nobody):
		return fmt.Errorf("subscription %q: want the id of a subscription, which is a GUID", p.Subscription)
	case p.Subscription == "" && len(p.Groups) > 0:
		return fmt.Errorf("resource-groups %q: want --subscription, too: resource groups belong to a subscription", strings.Join(p.Groups, ","))
	}
	for _, g := range p.Groups {
		if !groupForm.MatchString(g) {
			return fmt.Errorf("resource-groups %q: want the names of resource groups, without their subscription", g)
		}
	}
	return nil
}

// definition is a role as "az role definition create" takes it.
type definition struct {
	Name             string
	IsCustom         bool
	Description      string
	Actions          []string
	NotActions       []string
	DataActions      []string
	NotDataActions   []string
	AssignableScopes []string
}

// Document returns the published role as the pins narrow it, as JSON. p.Check must have found
// nothing wrong. Without pins it is the published one, byte by byte.
func Document(published []byte, p Pins) ([]byte, error) {
	if p.Mode == Enforce && p.Name == "" && p.Subscription == "" && !p.NodeRoutes {
		return published, nil
	}
	var d definition
	r := json.NewDecoder(bytes.NewReader(published))
	r.DisallowUnknownFields() // what is not known here would be lost
	if err := r.Decode(&d); err != nil {
		return nil, fmt.Errorf("read the published role: %w", err)
	}
	if p.NodeRoutes {
		d.Actions = append(d.Actions, routeActions()...)
	}
	if p.Mode == Plan {
		d.Name += " Plan"
		d.Description = "Reads virtual machines and their networks. Assign it to the resource groups that hold them."
		d.Actions = slices.DeleteFunc(d.Actions, func(a string) bool { return !strings.HasSuffix(a, "/read") })
	}
	if p.Name != "" {
		d.Name = p.Name
	}
	if p.Subscription != "" {
		d.AssignableScopes = p.scopes()
	}
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	w.SetIndent("", "  ")
	if err := w.Encode(d); err != nil {
		return nil, fmt.Errorf("write the role: %w", err)
	}
	return out.Bytes(), nil
}

// scopes are where the role can be assigned, each once: names of groups are the same in any case.
func (p Pins) scopes() []string {
	subscription := "/subscriptions/" + strings.ToLower(p.Subscription)
	if len(p.Groups) == 0 {
		return []string{subscription}
	}
	var out []string
	for _, g := range p.Groups {
		scope := subscription + "/resourceGroups/" + g
		if !slices.ContainsFunc(out, func(s string) bool { return strings.EqualFold(s, scope) }) {
			out = append(out, scope)
		}
	}
	return out
}

// Actions are the operations that a role permits.
func Actions(published []byte) ([]string, error) {
	var d definition
	if err := json.Unmarshal(published, &d); err != nil {
		return nil, fmt.Errorf("read the published role: %w", err)
	}
	return d.Actions, nil
}
