// Package iam decides requests by identity-based IAM policies, as far as credentials that edit
// security groups need it: allow and deny statements over actions, resources and string conditions.
// What it does not know (NotAction, policy variables, other operators) is an error when the policy
// is read, not a condition that silently never holds.
//
// The grammar and the order of decision (an explicit deny, then an allow, else no) follow the IAM
// User Guide, "Grammar of the IAM JSON policy language" and "Policy evaluation logic". A Policy is
// immutable and safe for concurrent use.
package iam

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Policy is a policy document. The zero value allows nothing.
type Policy struct {
	source     json.RawMessage
	statements []statement
}

// Request is what is asked for one resource. An action that concerns several resources is one
// Request for each.
type Request struct {
	// Action is service and call, such as ec2:DeleteSecurityGroup.
	Action string
	// Resource is an ARN, or "*" for actions that know no resources.
	Resource string
	// Keys are the condition keys of the request with their values. A key that the request does not
	// have is absent.
	Keys map[string][]string
}

type statement struct {
	deny       bool
	actions    []string
	resources  []string
	conditions []condition
}

// Parse reads a policy document. Errors name the statement and the element.
func Parse(document []byte) (*Policy, error) {
	var p Policy
	return &p, p.UnmarshalJSON(document)
}

// MarshalJSON returns the document that the policy was read from.
func (p *Policy) MarshalJSON() ([]byte, error) {
	if p.source == nil {
		return []byte(`{"Version":"2012-10-17","Statement":[]}`), nil
	}
	return p.source, nil
}

// UnmarshalJSON reads a policy document.
func (p *Policy) UnmarshalJSON(document []byte) error {
	var doc struct {
		Version   string
		ID        string `json:"Id"`
		Statement oneOrMore[rawStatement]
	}
	if err := strict(document, &doc); err != nil {
		return fmt.Errorf("policy document: %w", err)
	}
	if doc.Version != "2012-10-17" && doc.Version != "2008-10-17" {
		return fmt.Errorf("policy document: Version: expected 2012-10-17, found %q", doc.Version)
	}
	out := Policy{source: slices.Clone(document)}
	for i, raw := range doc.Statement {
		s, err := raw.read()
		if err != nil {
			return fmt.Errorf("policy document: Statement[%d]: %w", i, err)
		}
		out.statements = append(out.statements, s)
	}
	*p = out
	return nil
}

// Allows decides a request: no deny statement matches it, and an allow statement does.
func (p *Policy) Allows(r Request) bool {
	allowed := false
	for i := range p.statements {
		s := &p.statements[i]
		if !s.matches(r) {
			continue
		}
		if s.deny {
			return false
		}
		allowed = true
	}
	return allowed
}

// Actions returns the patterns of actions that the policy allows, sorted, each once.
func (p *Policy) Actions() []string {
	var out []string
	for _, s := range p.statements {
		if !s.deny {
			out = append(out, s.actions...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *statement) matches(r Request) bool {
	// The names of actions are compared without regard to case, ARNs with.
	action := strings.ToLower(r.Action)
	if !slices.ContainsFunc(s.actions, func(p string) bool { return like(strings.ToLower(p), action) }) ||
		!slices.ContainsFunc(s.resources, func(p string) bool { return like(p, r.Resource) }) {
		return false
	}
	for _, c := range s.conditions {
		if !c.holds(r.Keys) {
			return false
		}
	}
	return true
}

type rawStatement struct {
	Sid, Effect string
	Action      oneOrMore[string]
	Resource    oneOrMore[string]
	Condition   map[string]map[string]oneOrMore[string]
}

func (raw rawStatement) read() (statement, error) {
	s := statement{deny: raw.Effect == "Deny", actions: raw.Action, resources: raw.Resource}
	if !s.deny && raw.Effect != "Allow" {
		return s, fmt.Errorf("element Effect: expected Allow or Deny, found %q", raw.Effect)
	}
	if len(s.actions) == 0 {
		return s, fmt.Errorf("element Action: expected at least one, such as ec2:DescribeVpcs")
	}
	if len(s.resources) == 0 {
		return s, fmt.Errorf(`element Resource: expected at least one ARN or "*"`)
	}
	for _, a := range s.actions {
		if service, call, ok := strings.Cut(a, ":"); a != "*" && (!ok || service == "" || call == "") {
			return s, fmt.Errorf("element Action: expected SERVICE:CALL, found %q", a)
		}
	}
	for operator, keys := range raw.Condition {
		for key, values := range keys {
			c, err := newCondition(operator, key, values)
			if err != nil {
				return s, fmt.Errorf("element Condition: %w", err)
			}
			s.conditions = append(s.conditions, c)
		}
	}
	for _, values := range [][]string{s.actions, s.resources} {
		for _, v := range values {
			if strings.Contains(v, "${") {
				return s, fmt.Errorf("policy variables are not simulated: %q", v)
			}
		}
	}
	return s, nil
}

// oneOrMore reads a value or a list of them, which policies allow wherever there can be several.
type oneOrMore[T any] []T

func (o *oneOrMore[T]) UnmarshalJSON(b []byte) error {
	if t := bytes.TrimSpace(b); len(t) > 0 && t[0] == '[' {
		return strict(b, (*[]T)(o))
	}
	var one T
	if err := strict(b, &one); err != nil {
		return err
	}
	*o = []T{one}
	return nil
}

func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
