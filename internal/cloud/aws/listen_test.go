package aws_test

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// TestListenSurvives disturbs the queue in every way and finds that changes are heard of
// afterwards.
func TestListenSurvives(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	ref := l.server.Queues().Refs()[0]
	heard := l.listen(l.open(aws.Config{Queues: []aws.Queue{l.queue()}}))
	tag := func(value string) {
		t.Helper()
		if err := l.region().CreateTags([]string{network}, []simaws.Tag{{Key: "a", Value: value}}); err != nil {
			t.Fatal(err)
		}
		l.eventually("the change to "+value+" is heard of", func() bool {
			for _, c := range heard.take() {
				if len(c.IDs) == 1 && c.IDs[0] == network && c.Region == region {
					return true
				}
			}
			return false
		})
	}
	failed := func(class cloud.Class) func(error) bool {
		return func(err error) bool { return err != nil && cloud.ClassOf(err) == class }
	}
	tag("at first")
	for _, body := range []string{"garbage", "{}", "[]", `{"account":"` + l.account + `"}`, "\x01\x02", strings.Repeat("x", 1<<19),
		`{"detail-type":"Something Else","account":"` + l.account + `","region":"us-west-2","detail":{"instance-id":"i-01234567"}}`,
		`{"detail-type":"EC2 Instance State-change Notification","account":"999988887777","region":"us-west-2","detail":{"instance-id":"i-01234567"}}`,
	} {
		if _, err := l.server.Queues().Send(ref, body, 0); err != nil {
			t.Fatal(err)
		}
	}
	l.eventually("garbage is deleted", l.drained)
	if got := heard.take(); len(got) != 0 {
		t.Errorf("heard in garbage: %v", got)
	}
	for _, fault := range []struct {
		ec2.Fault
		class cloud.Class
	}{
		{ec2.Fault{Action: "ReceiveMessage", Code: "RequestThrottled"}, cloud.Throttled},
		{ec2.Fault{Action: "ReceiveMessage", Code: "ServiceUnavailable", Times: 5}, cloud.Unavailable},
		{ec2.Fault{Action: "ReceiveMessage", LoseAnswer: true}, cloud.Unavailable},
		{ec2.Fault{Action: "ReceiveMessage", Code: "AccessDenied"}, cloud.Auth},
		{ec2.Fault{Action: "DeleteMessageBatch", Code: "InternalError"}, cloud.Unavailable},
		{ec2.Fault{Action: "DeleteMessageBatch", Drop: true}, cloud.Unavailable},
	} {
		l.server.Faults().Add(fault.Fault)
		// A poll that waits ends with a message; the next call meets the fault. What it hid comes
		// again.
		for _, value := range []string{fault.Code, "again"} {
			if err := l.region().CreateTags([]string{network}, []simaws.Tag{{Key: "a", Value: value}}); err != nil {
				t.Fatal(err)
			}
			l.eventually("a message is handed over, or lost on the way", func() bool { return len(heard.take()) > 0 || heard.saw(failed(fault.class)) })
		}
		l.eventually("the fault strikes: "+fault.Action+" "+fault.Code, func() bool { return heard.saw(failed(fault.class)) })
		_ = l.clock.sleep(t.Context(), 1<<36)
		l.eventually("the queue is empty", l.drained)
		heard.mu.Lock()
		heard.errs, heard.changes = nil, nil
		heard.mu.Unlock()
		tag("after " + fault.Action + " " + fault.Code)
	}
	if err := l.server.Queues().Delete(ref); err != nil {
		t.Fatal(err)
	}
	l.eventually("the queue is missed", func() bool { return heard.saw(failed(cloud.NotFound)) })
	if err := l.server.Queues().Create(ref, nil); err != nil {
		t.Fatal(err)
	}
	tag("in the new queue")
}

// TestAuthors: what a call through the wire says about its author.
func TestAuthors(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	heard := l.listen(l.open(aws.Config{Queues: []aws.Queue{l.queue()}}))
	op := cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{"a": "1"}}
	if _, err := l.provider.Apply(t.Context(), l.scope(), op); err != nil {
		t.Fatal(err)
	}
	var got []cloud.Change
	l.eventually("the call is heard of", func() bool { got = heard.take(); return len(got) > 0 })
	want := cloud.Author{Name: "arn:aws:iam::" + l.account + ":user/nephele", Call: "CreateTags", At: l.clock.read().Truncate(1e9), Ours: true}
	if a := got[0].Author; !a.At.Equal(want.At) || a.Name != want.Name || a.Call != want.Call || !a.Ours {
		t.Errorf("%+v; want %+v", a, want)
	}
}

// TestNarrow: a narrowed provider sees what a whole one sees, as far as it lies in the networks
// that matter.
func TestNarrow(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	whole, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	inside := func(networks ...string) (vms, nics, groups int) {
		in := map[string]bool{}
		for _, n := range networks {
			in[n] = true
		}
		for _, v := range whole.VMs {
			if in[v.NetworkID] {
				vms++
			}
		}
		for _, n := range whole.Interfaces {
			if in[n.NetworkID] {
				nics++
			}
		}
		for _, g := range whole.Groups {
			if in[g.NetworkID] {
				groups++
			}
		}
		return vms, nics, groups
	}
	check := func(what string, match []cloud.NetworkMatch, networks ...string) {
		t.Helper()
		calls := l.server.Journal().Total()
		s, err := l.provider.Narrow(match).Observe(t.Context(), l.scope())
		if err != nil {
			t.Fatal(err)
		}
		vms, nics, groups := inside(networks...)
		if len(s.VMs) != vms || len(s.Interfaces) != nics || len(s.Groups) != groups || len(s.Networks) != len(whole.Networks) {
			t.Errorf("%s: %d VMs, %d interfaces, %d groups, %d networks; want %d, %d, %d, %d", what, len(s.VMs), len(s.Interfaces),
				len(s.Groups), len(s.Networks), vms, nics, groups, len(whole.Networks))
		}
		if len(networks) > 0 && s.CountedGroups() != whole.CountedGroups() {
			t.Errorf("%s: %d groups count against the quota, want all %d", what, s.CountedGroups(), whole.CountedGroups())
		}
		for _, c := range l.server.Journal().Calls(calls) {
			if strings.HasPrefix(c.Action, "DescribeInstances") && c.Params["Filter.1.Name"] != "vpc-id" {
				t.Errorf("%s: %s %v", what, c.Action, c.Params)
			}
		}
	}
	const other = "vpc-925131f4"
	check("nothing", nil)
	check("by id", []cloud.NetworkMatch{{ID: network}}, network)
	check("by name", []cloud.NetworkMatch{{Name: "Arista Demo"}}, network)
	check("by another name", []cloud.NetworkMatch{{ID: network, Name: "x"}, {}})
	side := func(id string) simaws.PeeringVPC {
		return simaws.PeeringVPC{VPCID: id, Account: l.account, Region: region}
	}
	if _, err := l.server.World().AddPeering(simaws.PeeringConnection{Requester: side(network), Accepter: side(other)}); err != nil {
		t.Fatal(err)
	}
	check("with a peer", []cloud.NetworkMatch{{ID: network}}, network, other)
	third := ""
	for _, n := range whole.Networks {
		if n.ID != network && n.ID != other {
			third = n.ID
		}
	}
	if _, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{
		NetworkID: third, Name: "nephele-x", Tags: map[string]string{cloud.TagCluster: "c"}}}); err != nil {
		t.Fatal(err)
	}
	if whole, err = l.provider.Observe(t.Context(), l.scope()); err != nil {
		t.Fatal(err)
	}
	check("with something of ours elsewhere", []cloud.NetworkMatch{{ID: network}}, network, other, third)
}
