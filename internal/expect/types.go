package expect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is the kind of the files.
const Kind = "PolicyTest"

// GroupVersion is the API version of the files. No server has it.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "nephele.io", Version: "v1alpha1"}
}

// PolicyTest states expected verdicts.
type PolicyTest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (t *PolicyTest) DeepCopyObject() runtime.Object {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Namespaces = slices.Clone(t.Spec.Namespaces)
	out.Spec.Endpoints = slices.Clone(t.Spec.Endpoints)
	out.Spec.Flows = slices.Clone(t.Spec.Flows)
	return &out
}

// Spec is the content of a PolicyTest.
type Spec struct {
	// Namespaces exist besides those in the manifests, or have other labels than there.
	Namespaces []Namespace `json:"namespaces,omitempty"`
	// Endpoints exist in this test, besides those in the manifests and the snapshot.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Flows are what is expected.
	Flows []Flow `json:"flows"`
}

// Namespace is supposed to exist.
type Namespace struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Endpoint is supposed to exist.
type Endpoint struct {
	// Kind is VM or Pod.
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Addresses are what packets carry; at least one.
	Addresses []string `json:"addresses"`
	// Ports are those that rules may call by name.
	Ports []Port `json:"ports,omitempty"`
}

// Port is a named port.
type Port struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol,omitempty"`
	Port     int32  `json:"port"`
}

// Flow is one expectation: about every flow from each of From to each of To.
type Flow struct {
	// Name says what it is for.
	Name string `json:"name,omitempty"`
	// From and To name the endpoints: any, NAMESPACE/NAME, NAMESPACE/SELECTOR, an address or range
	// and so on. One after ! is left out.
	From Texts `json:"from"`
	To   Texts `json:"to"`
	// Protocol is TCP, UDP, SCTP, ICMP, ICMPv6 or a number; empty means TCP if there is a port,
	// else all traffic.
	Protocol Text `json:"protocol,omitempty"`
	// Port is a number or a range.
	Port Text `json:"port,omitempty"`
	// Expect is what is to become of the flows.
	Expect Expectation `json:"expect"`
}

// Expectation is what is to become of flows.
type Expectation string

// The expectations.
const (
	ExpectAllow Expectation = "allow"
	// ExpectDeny: Drop or Reject.
	ExpectDeny   Expectation = "deny"
	ExpectDrop   Expectation = "drop"
	ExpectReject Expectation = "reject"
	// ExpectNative: the policies leave it to the security groups of a machine.
	ExpectNative Expectation = "native"
)

// Expectations are all of them.
func Expectations() []Expectation {
	return []Expectation{ExpectAllow, ExpectDeny, ExpectDrop, ExpectReject, ExpectNative}
}

// Text is a text that may be written as a number.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(raw []byte) error {
	var number json.Number
	if err := json.Unmarshal(raw, &number); err == nil && !bytes.HasPrefix(raw, []byte(`"`)) {
		*t = Text(number.String())
		return nil
	}
	return json.Unmarshal(raw, (*string)(t))
}

// Texts is a list of texts, of which one may stand alone.
type Texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Texts) UnmarshalJSON(raw []byte) error {
	var one string
	if err := json.Unmarshal(raw, &one); err == nil {
		*t = Texts{one}
		return nil
	}
	if err := json.Unmarshal(raw, (*[]string)(t)); err != nil {
		return fmt.Errorf("want a text or a list of texts: %w", err)
	}
	return nil
}
