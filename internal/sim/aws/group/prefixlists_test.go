package group_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

func TestPrefixLists(t *testing.T) {
	b := worldtest.New(t, world.Options{TransitionDelay: time.Minute})
	in := aws.CreatePrefixListInput{Name: "l", Family: "IPv4", MaxEntries: 3, ClientToken: "c", Entries: []aws.EntrySpec{{CIDR: "192.0.2.1/24", Description: "x"}}}
	l := worldtest.Must[aws.PrefixList](t)(b.Region.Lists().CreatePrefixList(in))
	if again := worldtest.Must[aws.PrefixList](t)(b.Region.Lists().CreatePrefixList(in)); again.ID != l.ID {
		t.Errorf("the same token made %s and %s", l.ID, again.ID)
	}
	one, two := 1, 2
	change := func(m aws.ModifyPrefixListInput) error {
		m.PrefixListID = l.ID
		_, err := b.Region.Lists().ModifyPrefixList(m)
		return err
	}
	worldtest.WantRefusal(t, "while creating", change(aws.ModifyPrefixListInput{CurrentVersion: &one, Add: []aws.EntrySpec{{CIDR: "10.0.0.0/8"}}}), "IncorrectState", "(create-in-progress)")
	b.Clock.Advance(time.Minute)
	worldtest.WantRefusal(
		t,
		"other version",
		change(aws.ModifyPrefixListInput{CurrentVersion: &two, Add: []aws.EntrySpec{{CIDR: "10.0.0.0/8"}}}),
		"PrefixListVersionMismatch",
		"The prefix list has the incorrect version number.",
	)
	worldtest.WantRefusal(t, "both at once", change(aws.ModifyPrefixListInput{CurrentVersion: &one, MaxEntries: &two, Add: []aws.EntrySpec{{CIDR: "10.0.0.0/8"}}}), "InvalidParameterValue", "")
	worldtest.WantRefusal(t, "other family", change(aws.ModifyPrefixListInput{CurrentVersion: &one, Add: []aws.EntrySpec{{CIDR: "::/0"}}}), "InvalidParameterValue", "malformed")
	if err := change(aws.ModifyPrefixListInput{CurrentVersion: &one, Add: []aws.EntrySpec{{CIDR: "10.0.0.0/8"}}, Remove: []string{"192.0.2.0/24"}}); err != nil {
		t.Fatal(err)
	}
	worldtest.WantRefusal(t, "while modifying", change(aws.ModifyPrefixListInput{MaxEntries: &two}), "IncorrectState", "(modify-in-progress)")
	b.Clock.Advance(time.Minute)
	now, was := worldtest.Must[[]aws.PrefixListEntry](t)(b.Region.Lists().PrefixListEntries(l.ID, 0)), worldtest.Must[[]aws.PrefixListEntry](t)(b.Region.Lists().PrefixListEntries(l.ID, 1))
	if fmt.Sprint(now) != "[{10.0.0.0/8 }]" || fmt.Sprint(was) != "[{192.0.2.0/24 x}]" {
		t.Errorf("entries %v, before %v", now, was)
	}
	g := b.Group("web")
	if err := b.Allow(g, aws.Permission{Protocol: "-1", PrefixLists: []aws.PrefixListPeer{{PrefixListID: l.ID}}}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Region.Lists().DeletePrefixList(l.ID)
	worldtest.WantRefusal(t, "delete a referenced list", err, "DependencyViolation", "")
	worldtest.Must[string](t)(b.Region.Groups().DeleteSecurityGroup(g, ""))
	worldtest.Must[aws.PrefixList](t)(b.Region.Lists().DeletePrefixList(l.ID))
	b.Clock.Advance(time.Minute)
	_, err = b.Region.Lists().PrefixLists(l.ID)
	worldtest.WantRefusal(t, "after the deletion", err, "InvalidPrefixListID.NotFound", "")
}
