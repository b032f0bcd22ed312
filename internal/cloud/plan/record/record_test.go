package record

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestFormerTags: groups are read back from as many tags as they need, of which none is too long,
// also if the cloud trims values.
func TestFormerTags(t *testing.T) {
	for _, n := range []int{0, 1, 2, 12, 13, 14, 60} {
		var groups []string
		for i := range n {
			groups = append(groups, fmt.Sprintf("sg-%017d", i))
		}
		tags := FormerTags(groups)
		for key, value := range tags {
			if len(value) >= formerTagSize {
				t.Errorf("%d groups: %s has %d characters", n, key, len(value))
			}
			if i := strings.TrimSpace(value); len(i) < len(value)-1 || strings.HasSuffix(value, " ") {
				t.Errorf("%d groups: %s would be trimmed: %q", n, key, value)
			}
		}
		if _, first := tags[FormerTagKey(0)]; !first {
			t.Errorf("%d groups: there is no first tag", n)
		}
		if got := Former(&cloud.Interface{Tags: tags}); got == nil || !slices.Equal(got, groups) {
			t.Errorf("%d groups are read back as %q", n, got)
		}
	}
	if got := Former(&cloud.Interface{}); got != nil {
		t.Errorf("without tags %q is read", got)
	}
}

// TestEnforcement: policies in force are read back, and nothing is of tags that are not whole.
func TestEnforcement(t *testing.T) {
	for _, n := range []int{0, 1, policiesPerTag, policiesPerTag + 1, enforcedTags * policiesPerTag} {
		e := Enforcement{}
		for i := range n {
			e[Shortened(fmt.Sprint("uid-", i))] = true
		}
		tags := e.Tags()
		got := EnforcementOf(tags)
		if len(got) != n || got == nil {
			t.Fatalf("%d policies are read back as %d", n, len(got))
		}
		for name := range e {
			if !got[name] {
				t.Errorf("%d policies: %s is lost", n, name)
			}
		}
		tags[cloud.TagPolicies] += "x"
		if EnforcementOf(tags) != nil {
			t.Errorf("%d policies: a tag that is not whole is believed", n)
		}
	}
	more := Enforcement{}
	for i := range enforcedTags*policiesPerTag + 1 {
		more[Shortened(fmt.Sprint("uid-", i))] = true
	}
	if len(more.Tags()) > 0 || EnforcementOf(nil) != nil {
		t.Error("more than there is room for is written, or something is read out of nothing")
	}
}

// TestSeal: a record is believed of the interface for which it was signed, with the groups that it
// had, in its region, its account and its cluster, and by a key that the seal knows.
func TestSeal(t *testing.T) {
	key := func(b byte) []byte { return bytes.Repeat([]byte{b}, SealKeySize) }
	nic := func(id, signature string, groups ...string) *cloud.Interface {
		tags := FormerTags(groups)
		tags[cloud.TagSignature] = signature
		return &cloud.Interface{ID: id, Tags: tags}
	}
	old := NewSeal(key('o'), "cluster", "shop")
	signed := old.Sign("here", []Entry{{"eni-1", []string{"sg-1"}}, {"eni-2", []string{"sg-1", "sg-2"}}})
	renewed := NewSeal(key('n'), "cluster", "shop", key('o'))
	for name, c := range map[string]struct {
		by              *Seal
		region          string
		nic             *cloud.Interface
		proven, current bool
	}{
		"the first of two":      {old, "here", nic("eni-1", signed, "sg-1"), true, true},
		"the second":            {old, "here", nic("eni-2", signed, "sg-1", "sg-2"), true, true},
		"another interface":     {old, "here", nic("eni-3", signed, "sg-1"), false, false},
		"other groups":          {old, "here", nic("eni-1", signed, "sg-2"), false, false},
		"another region":        {old, "there", nic("eni-1", signed, "sg-1"), false, false},
		"another account":       {NewSeal(key('o'), "cluster", "other"), "here", nic("eni-1", signed, "sg-1"), false, false},
		"another cluster":       {NewSeal(key('o'), "other", "shop"), "here", nic("eni-1", signed, "sg-1"), false, false},
		"another key":           {NewSeal(key('x'), "cluster", "shop"), "here", nic("eni-1", signed, "sg-1"), false, false},
		"a former key":          {renewed, "here", nic("eni-1", signed, "sg-1"), true, false},
		"without a signature":   {old, "here", nic("eni-1", "", "sg-1"), false, false},
		"of too many proofs":    {old, "here", nic("eni-1", signed+strings.Repeat("A", Sealed*proofLength), "sg-1"), false, false},
		"in some other version": {old, "here", nic("eni-1", "v2"+strings.TrimPrefix(signed, "v1"), "sg-1"), false, false},
		"nobody asks":           {nil, "here", nic("eni-1", signed, "sg-1"), false, false},
	} {
		if proven, current := c.by.Check(c.region, c.nic); proven != c.proven || current != c.current {
			t.Errorf("%s: proven %v, by the current key %v", name, proven, current)
		}
	}
}
