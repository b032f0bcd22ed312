package realize

import (
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// TestPrefixListsChange: what the owner of a prefix list changes takes effect on a VM under
// control, at once where its groups name the list, and after the next reading where a policy takes
// something out of it.
func TestPrefixListsChange(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	region := l.region(home)
	list, err := region.Lists().CreatePrefixList(aws.CreatePrefixListInput{Name: "partners", Family: "IPv4", MaxEntries: 10, Entries: []aws.EntrySpec{{CIDR: "203.0.113.0/24"}}})
	if err != nil {
		t.Fatal(err)
	}
	nics, err := region.NetworkInterfaces(l.vms["db-1"].nic)
	if err != nil {
		t.Fatal(err)
	}
	port := int32(5432)
	if _, err := region.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: nics[0].Groups[0].ID, Permissions: []aws.Permission{
		{Protocol: "tcp", FromPort: &port, ToPort: &port, PrefixLists: []aws.PrefixListPeer{{PrefixListID: list.ID}}}}}); err != nil {
		t.Fatal(err)
	}
	version := list.Version()
	add := func(cidr string) {
		t.Helper()
		if _, err := region.Lists().ModifyPrefixList(aws.ModifyPrefixListInput{PrefixListID: list.ID, CurrentVersion: &version, Add: []aws.EntrySpec{{CIDR: cidr}}}); err != nil {
			t.Fatal(err)
		}
		version++
	}
	admitted := func(from string, want bool) {
		t.Helper()
		if got := l.ask(probe{from, "db-1", 5432}).Ingress.Allowed; got != want {
			t.Errorf("from %s: %v", from, got)
		}
	}
	drop := func(generation int64, cidr string) {
		p := clusterPolicy("db-drop", generation, 5)
		p.AppliedTo = applied("db")
		p.Ingress = []policy.Rule{{Action: policy.Drop, Peers: block(cidr)}}
		l.engine.PutPolicy(p)
	}
	drop(1, "198.51.100.0/25")
	l.start()
	l.publish()
	l.settle()
	admitted("203.0.113.7", true)
	add("192.0.2.0/24")
	admitted("192.0.2.7", true)
	drop(2, "203.0.113.0/25")
	l.accounts.observe(t.Context())
	l.publish()
	l.settle()
	admitted("203.0.113.7", false)
	admitted("203.0.113.200", true)
	admitted("192.0.2.7", true)
	add("198.51.100.128/25")
	admitted("198.51.100.200", false)
	l.accounts.observe(t.Context())
	l.publish()
	l.settle()
	admitted("198.51.100.200", true)
	admitted("203.0.113.7", false)
}
