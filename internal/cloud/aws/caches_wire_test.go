package aws_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	policies "github.com/nephele-io/nephele/internal/cloud/aws/rights"
	"github.com/nephele-io/nephele/internal/sim"
	simservice "github.com/nephele-io/nephele/internal/sim/aws/service"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// stored is an account with caches and a file system, which take half a minute for each change.
const stored = `
accounts:
- id: "111122223333"
  regions:
  - name: us-west-2
    vpcs:
    - name: shop
      id: vpc-00000001
      cidrs: [10.1.0.0/16]
      subnets:
      - {name: a, cidr: 10.1.0.0/17}
      - {name: b, cidr: 10.1.128.0/17}
      groups:
      - {name: kept, rules: ["tcp 6379 from any"]}
      - {name: other, rules: ["tcp 2049 from any"]}
      services:
      - {kind: replication-group, name: sessions, engine: redis, members: 2, subnets: [a, b], groups: [kept], tags: {team: shop, nephele.io/guard: ""}}
      - {kind: cache, name: pages, engine: memcached, subnets: [a], groups: [kept], tags: {nephele.io/guard: ""}}
      - {kind: file-system, name: papers, subnets: [a, b], groups: [kept], tags: {team: home}}
`

func storedLab(t *testing.T, rights *iam.Policy) *lab {
	t.Helper()
	state := estatetest.Parse(t, stored)
	state.Credentials[0].Policy = rights
	return newLab(t, sim.Options{State: state, TransitionDelay: 30 * time.Second})
}

// service reads the services of the account, and returns one of them.
func (l *lab) service(p cloud.Provider, kind cloud.ServiceKind, name string) cloud.Service {
	l.Helper()
	all := l.shown(p)
	i := slices.IndexFunc(all, func(x cloud.Service) bool { return x.Kind == kind && x.Name == name })
	if i < 0 {
		l.Fatalf("no %s %s among %+v", kind, name, all)
	}
	return all[i]
}

// shown are the services of the account.
func (l *lab) shown(p cloud.Provider) []cloud.Service {
	l.Helper()
	snap, err := p.Observe(l.Context(), l.scope())
	if err != nil {
		l.Fatal(err)
	}
	return snap.Services
}

// TestCacheKeepsTags: while replication groups cannot be read their members keep their tags.
func TestCacheKeepsTags(t *testing.T) {
	t.Parallel()
	l := storedLab(t, nil)
	p := l.provider.Show([]cloud.ServiceKind{cloud.ElastiCacheCluster})
	before := l.shown(p)
	l.server.Faults().Add(ec2.Fault{Times: 3, Action: "DescribeReplicationGroups", Code: "InternalFailure", Status: 500})
	for range 3 {
		for i, s := range l.shown(p) {
			if !maps.Equal(s.Tags, before[i].Tags) || len(s.Tags) == 0 {
				t.Errorf("%s has %v, had %v", s.Name, s.Tags, before[i].Tags)
			}
		}
	}
}

func (l *lab) groupNamed(name string) string {
	for _, r := range l.server.World().State().Regions {
		for _, g := range r.SecurityGroups {
			if g.Name == name {
				return g.ID
			}
		}
	}
	l.Fatalf("no group %s", name)
	return ""
}

func (l *lab) services() simservice.Services {
	l.Helper()
	r, err := l.server.World().Region("111122223333", "us-west-2")
	if err != nil {
		l.Fatal(err)
	}
	return r.Services()
}

// done has an op done on a service.
func (l *lab) done(p cloud.Provider, op cloud.Op) {
	l.Helper()
	if _, err := p.Apply(l.Context(), l.scope(), op); err != nil {
		l.Fatalf("%s on %s: %v", op.Kind, op.Target, err)
	}
}

// TestCachesOverTheWire: a replication group is a service with the interfaces, groups and tags of
// its members, and its members leave their groups to it.
func TestCachesOverTheWire(t *testing.T) {
	t.Parallel()
	l := storedLab(t, written(t, policies.Pins{Mode: policies.Plan, Services: true}))
	p := l.provider.Show(cloud.ServiceKinds())
	whole, alone := l.service(p, cloud.ElastiCacheReplicationGroup, "sessions"), l.service(p, cloud.ElastiCacheCluster, "pages")
	for _, x := range []cloud.Service{whole, alone} {
		if x.Fixed != "" || !slices.Equal(x.GroupIDs, []string{l.groupNamed("kept")}) || x.NetworkID != "vpc-00000001" || x.DNSName == "" || len(x.Ports) != 1 {
			t.Errorf("%+v", x)
		}
	}
	if len(whole.Interfaces) != 2 || len(whole.Private) != 2 || whole.Tags["team"] != "shop" || whole.Ports[0].Name != "redis" {
		t.Errorf("%+v", whole)
	}
	for _, name := range []string{"sessions-001", "sessions-002"} {
		if m := l.service(p, cloud.ElastiCacheCluster, name); !strings.Contains(m.Fixed, "its replication group sessions") || m.Unread || m.Tags["team"] != "shop" || len(m.Interfaces) != 1 {
			t.Errorf("%+v", m)
		}
	}
}

// TestCacheRights: without the right to read replication groups, or tags, caches are known all the
// same and not set, and it is told which right is missing.
func TestCacheRights(t *testing.T) {
	t.Parallel()
	document, err := policies.Document(policies.Pins{Mode: policies.Plan, Services: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, right := range []string{"elasticache:DescribeReplicationGroups", "elasticache:ListTagsForResource"} {
		less, err := iam.Parse([]byte(strings.Replace(string(document), right, "elasticache:Nothing", 1)))
		if err != nil {
			t.Fatal(err)
		}
		l := storedLab(t, less)
		p := l.provider.Show(cloud.ServiceKinds())
		snap, err := p.Observe(t.Context(), l.scope())
		if err != nil || len(snap.ServiceFaults) != 1 || snap.ServiceFaults[0].Right != right || cloud.ClassOf(snap.ServiceFaults[0].Err) != cloud.Auth {
			t.Fatalf("without %s: %v %+v", right, err, snap)
		}
		pages := l.service(p, cloud.ElastiCacheCluster, "pages")
		if known := right != "elasticache:ListTagsForResource"; len(pages.Interfaces) != 1 || (pages.Fixed == "") != known || pages.Unread == known {
			t.Errorf("without %s: %+v", right, pages)
		}
		if l.service(p, cloud.EFSFileSystem, "papers").Fixed != "" {
			t.Error("the file system is concerned as well")
		}
	}
}

// TestCacheIsChanging: while a cache is being changed it takes no tags and tells none. What it is
// told waits until it does, and what it remembers is not known meanwhile.
func TestCacheIsChanging(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind cloud.ServiceKind
		name string
	}{{cloud.ElastiCacheReplicationGroup, "sessions"}, {cloud.ElastiCacheCluster, "pages"}} {
		l := storedLab(t, nil)
		p := l.provider.Show([]cloud.ServiceKind{c.kind})
		x := l.service(p, c.kind, c.name)
		record := map[string]string{cloud.TagFormer: x.GroupIDs[0]}
		l.done(p, cloud.Op{Kind: cloud.OpTag, Target: x.ID, Tags: record})
		if got := l.service(p, c.kind, c.name); got.Tags[cloud.TagFormer] != x.GroupIDs[0] || got.Fixed != "" {
			t.Errorf("%+v", got)
		}
		l.done(p, cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: x.ID, GroupIDs: []string{l.groupNamed("other")}})
		if got := l.service(p, c.kind, c.name); !got.Unread || !got.Behind || !slices.Equal(got.GroupIDs, []string{l.groupNamed("other")}) {
			t.Errorf("while it is being changed: %+v", got)
		}
		// What it is selected by stays as it was told.
		for _, s := range l.shown(p) {
			if guard, there := s.Tags[cloud.TagGuard]; !there || guard != "" || s.Kind != c.kind && s.Tags[cloud.TagFormer] != "" {
				t.Errorf("while it is being changed: %s has %v", s.Name, s.Tags)
			}
		}
		l.done(p, cloud.Op{Kind: cloud.OpUntag, Target: x.ID, Tags: record})
		if got := l.service(p, c.kind, c.name); got.Unread || got.Behind || got.Tags[cloud.TagFormer] != "" || len(got.Tags) != len(x.Tags) {
			t.Errorf("afterwards: %+v", got)
		}
		for _, s := range l.services().List(native.Cache, native.ReplicationGroup) {
			if _, kept := s.Tags[cloud.TagFormer]; kept {
				t.Errorf("%s has %v", s.Name, s.Tags)
			}
		}
	}
}

// TestCacheStaysChanging: a cache that is being changed for long refuses the record, and the error
// says what it waits for; one that was deleted has nothing left to forget.
func TestCacheStaysChanging(t *testing.T) {
	t.Parallel()
	l := storedLab(t, nil)
	p := l.provider.Show([]cloud.ServiceKind{cloud.ElastiCacheCluster})
	x := l.service(p, cloud.ElastiCacheCluster, "pages")
	l.server.Faults().Add(ec2.Fault{Times: -1, Action: "AddTagsToResource", Code: "CacheClusterNotFound", Status: 404, Message: "pages is either not present or not available."})
	_, err := p.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpTag, Target: x.ID, Tags: map[string]string{cloud.TagFormer: "sg-1"}})
	if cloud.ClassOf(err) != cloud.Terminal || !strings.Contains(err.Error(), "takes no tags until it is available") {
		t.Errorf("%v", err)
	}
	if err := l.services().Delete(native.Ref{Kind: native.Cache, Name: "pages"}); err != nil {
		t.Fatal(err)
	}
	l.done(p, cloud.Op{Kind: cloud.OpUntag, Target: x.ID, Tags: map[string]string{cloud.TagFormer: ""}})
}

// TestFileSystemOverTheWire: all mount targets are set together. While they differ, and nothing is
// remembered of them, they are left alone.
func TestFileSystemOverTheWire(t *testing.T) {
	t.Parallel()
	l := storedLab(t, nil)
	p := l.provider.Show([]cloud.ServiceKind{cloud.EFSFileSystem})
	papers := func() cloud.Service { return l.service(p, cloud.EFSFileSystem, "papers") }
	x := papers()
	if x.Fixed != "" || len(x.Interfaces) != 2 || x.Tags["team"] != "home" || !slices.Equal(x.GroupIDs, []string{l.groupNamed("kept")}) {
		t.Errorf("%+v", x)
	}
	targets := l.services().List(native.MountTarget)
	set := func(i int, group string) {
		t.Helper()
		if _, err := l.services().SetGroups("ModifyMountTargetSecurityGroups", targets[i].Ref(), []string{l.groupNamed(group)}); err != nil {
			t.Fatal(err)
		}
		if err := l.clock.sleep(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	set(0, "other")
	if got := papers(); !strings.Contains(got.Fixed, "different security groups") || got.Unread {
		t.Errorf("%+v", got)
	}
	l.done(p, cloud.Op{Kind: cloud.OpTag, Target: x.ID, Tags: map[string]string{cloud.TagFormer: l.groupNamed("kept")}})
	if got := papers(); got.Fixed != "" || len(got.GroupIDs) != 2 {
		t.Errorf("with a record: %+v", got)
	}
	l.done(p, cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: x.ID, GroupIDs: []string{l.groupNamed("other")}})
	for _, m := range l.services().List(native.MountTarget) {
		if !slices.Equal(m.Groups, []string{l.groupNamed("other")}) {
			t.Errorf("%s has %v", m.Name, m.Groups)
		}
	}
	l.done(p, cloud.Op{Kind: cloud.OpUntag, Target: x.ID, Tags: map[string]string{cloud.TagFormer: ""}})
	if got := papers(); got.Tags[cloud.TagFormer] != "" || got.Tags["team"] != "home" || got.Fixed != "" {
		t.Errorf("%+v", got)
	}
}
