package aws_test

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// TestPrefixLists reads lists of the account and of the cloud with their entries and with what a
// reference counts, and what their owners change.
func TestPrefixLists(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	const s3 = "pl-68a54001"
	own, err := l.region().Lists().CreatePrefixList(aws.CreatePrefixListInput{Name: "offices", Family: "IPv4", MaxEntries: 5, Entries: []aws.EntrySpec{{CIDR: "203.0.113.0/24"}}})
	if err != nil {
		t.Fatal(err)
	}
	l.addRuleOfList(own.ID)
	l.addRuleOfList(s3)
	read := func() map[string]cloud.PrefixList {
		t.Helper()
		snap, err := l.provider.Observe(t.Context(), l.scope())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]cloud.PrefixList{}
		for _, list := range snap.PrefixLists {
			out[list.ID] = list
		}
		return out
	}
	if got := read()[s3]; got.OwnerID != cloud.CloudOwned || got.Weight() != 1 || len(got.Entries) < 2 || !got.Known() {
		t.Errorf("the list of S3: %+v", got)
	}
	if got := read()[own.ID]; got.OwnerID != l.account || got.Weight() != 5 || len(got.Entries) != 1 {
		t.Errorf("the account's own list: %+v", got)
	}
	snap, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	version := own.Version()
	if _, err := l.region().
		Lists().ModifyPrefixList(aws.ModifyPrefixListInput{PrefixListID: own.ID, CurrentVersion: &version, Add: []aws.EntrySpec{{CIDR: "192.0.2.0/24"}}}); err != nil {
		t.Fatal(err)
	}
	part, err := l.provider.Refresh(t.Context(), snap, []string{own.ID})
	if err != nil {
		t.Fatal(err)
	}
	for name, lists := range map[string][]cloud.PrefixList{"in part": part.PrefixLists, "whole": {read()[own.ID]}} {
		i := slices.IndexFunc(lists, func(x cloud.PrefixList) bool { return x.ID == own.ID })
		if i < 0 || !slices.Contains(lists[i].Entries, prefix("192.0.2.0/24")) || len(lists[i].Entries) != 2 {
			t.Errorf("read %s after the change: %+v", name, lists)
		}
	}
}
