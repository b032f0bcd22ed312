package compute_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/translate"
)

// FuzzSelector holds selectors, as they show in the names and members of groups, against
// apimachinery's.
func FuzzSelector(f *testing.F) {
	f.Add("app", "web", "tier", "In", "a,b", "app", "web", "tier", "a")
	f.Add("x.io/app", "", "app", "NotIn", "a", "app", "b", "", "")
	f.Add("", "", "k", "Exists", "", "k", "v", "z", "z")
	f.Add("a", "b", "a", "DoesNotExist", "", "a", "b", "c", "d")
	f.Add("a", "b", "a", "Like", "x", "a", "b", "c", "d")
	f.Add("A/B/C", "b!", "a", "In", "", "a", "b", "c", "d")
	f.Fuzz(func(t *testing.T, k, v, key, op, values, k1, v1, k2, v2 string) {
		ours := &policy.Selector{}
		theirs := &metav1.LabelSelector{}
		if k != "" {
			ours.MatchLabels = map[string]string{k: v}
			theirs.MatchLabels = ours.MatchLabels
		}
		if op != "" {
			var list []string
			if values != "" {
				list = strings.Split(values, ",")
			}
			ours.MatchExpressions = []policy.Requirement{{Key: key, Operator: op, Values: list}}
			theirs.MatchExpressions = []metav1.LabelSelectorRequirement{{
				Key: key, Operator: metav1.LabelSelectorOperator(op), Values: list,
			}}
		}
		want, err := metav1.LabelSelectorAsSelector(theirs)
		errs := selectors.Check(ours, "spec")
		if (err != nil) != (len(errs) > 0) {
			t.Fatalf("ours: %s; apimachinery: %v", policy.JoinErrors(errs), err)
		}
		if err != nil {
			return
		}
		set := map[string]string{k1: v1, k2: v2}
		e := compute.New(compute.Options{})
		pod := policy.EntityRef{Kind: policy.KindPod, Namespace: "ns", Name: "p"}
		e.PutEntity(policy.Entity{EntityRef: pod, Labels: set, Host: "h", Addresses: []netip.Addr{netip.IPv4Unspecified()}})
		e.PutPolicy(policy.Policy{
			Kind: policy.KubernetesNetworkPolicy, Namespace: "ns", Name: "p", UID: "u",
			AppliedTo: []policy.AppliedTo{{PodSelector: ours}},
		})
		d := e.Commit()
		if got, want := len(d.AppliedToGroups[0].Added) == 1, want.Matches(labels.Set(set)); got != want {
			t.Fatalf("%v selects %v: %t, want %t", theirs, set, got, want)
		}
		if got, want := selectors.Text(ours), want.String(); got != want {
			t.Fatalf("text %q, want %q", got, want)
		}
	})
}

// FuzzIPBlock holds the parsing of ipBlocks against package net.
func FuzzIPBlock(f *testing.F) {
	f.Add("10.0.0.0/8", "10.1.0.0/16")
	f.Add("10.0.0.5/8", "10.0.0.0/8")
	f.Add("2001:db8::/32", "2001:db8:1::/48")
	f.Add("::ffff:10.0.0.0/104", "10.0.0.0/8")
	f.Add("10.0.0.0/08", "fe80::1%eth0/64")
	f.Add("10.0.0.0/33", "x")
	f.Fuzz(func(t *testing.T, cidr, except string) {
		errs := translate.CheckIPBlock(&policy.IPBlock{CIDR: cidr, Except: []string{except}}, "b")
		_, whole, err := net.ParseCIDR(cidr)
		if err != nil || strings.HasPrefix(strings.ToLower(cidr), "::ffff:") {
			if err != nil && len(errs) == 0 {
				t.Fatalf("%q accepted; package net: %v", cidr, err)
			}
			return
		}
		mapped := len(whole.Mask) == net.IPv4len && strings.Contains(cidr, ":")
		_, part, err := net.ParseCIDR(except)
		valid := err == nil && !mapped
		if valid {
			outer, bits := whole.Mask.Size()
			inner, bits2 := part.Mask.Size()
			valid = bits == bits2 && inner > outer && whole.Contains(part.IP)
		}
		if valid != (len(errs) == 0) && !strings.Contains(strings.ToLower(except+cidr), "ffff:") {
			t.Fatalf("%q except %q: %s; package net finds it valid: %t", cidr, except, policy.JoinErrors(errs), valid)
		}
		for _, e := range errs {
			if e.Field == "" || e.Want == "" {
				t.Fatalf("error without field or expectation: %+v", e)
			}
		}
	})
}
