package inventory

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
)

// shelf is an API server's stand-in that is fast enough to measure others: objects in maps, handed
// out uncopied as from a cache.
type shelf struct {
	client.Client // what is not used is not there
	mu            sync.Mutex
	objects       map[string]client.Object
	version       int
	writes        int
}

func shelfKey(o client.Object, key types.NamespacedName) string { return fmt.Sprintf("%T %s", o, key) }

func (s *shelf) keep(o client.Object) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	kept, _ := o.DeepCopyObject().(client.Object)
	s.objects[shelfKey(o, client.ObjectKeyFromObject(o))] = kept
}

func (s *shelf) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	s.keep(o)
	return nil
}

func (s *shelf) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return s.Create(context.Background(), o)
}

func (s *shelf) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	delete(s.objects, shelfKey(o, client.ObjectKeyFromObject(o)))
	return nil
}

func (s *shelf) Status() client.SubResourceWriter { return shelfStatus{s: s} }

type shelfStatus struct {
	client.SubResourceWriter
	s *shelf
}

func (w shelfStatus) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.s.Patch(ctx, o, p)
}

func (w shelfStatus) Update(ctx context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return w.s.Create(ctx, o)
}

func (s *shelf) Get(_ context.Context, key types.NamespacedName, o client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kept := s.objects[shelfKey(o, key)].(type) {
	case *v1alpha1.CloudProviderAccount:
		kept.DeepCopyInto(o.(*v1alpha1.CloudProviderAccount))
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.String())
}

func (s *shelf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		switch o := o.(type) {
		case *v1alpha1.VirtualMachine:
			if l, ok := list.(*v1alpha1.VirtualMachineList); ok {
				l.Items = append(l.Items, *o)
			}
		case *v1alpha1.Vpc:
			if l, ok := list.(*v1alpha1.VpcList); ok {
				l.Items = append(l.Items, *o)
			}
		case *antreav1alpha2.ExternalEntity:
			if l, ok := list.(*antreav1alpha2.ExternalEntityList); ok {
				l.Items = append(l.Items, *o)
			}
		case *antreav1alpha1.ExternalNode:
			if l, ok := list.(*antreav1alpha1.ExternalNodeList); ok {
				l.Items = append(l.Items, *o)
			}
		case *v1alpha1.CloudEntitySelector:
			if l, ok := list.(*v1alpha1.CloudEntitySelectorList); ok {
				l.Items = append(l.Items, *o)
			}
		}
	}
	return nil
}

// crowd is a provider with one region of many VMs; touch changes a tag of one.
type crowd struct {
	mu   sync.Mutex
	snap cloud.Snapshot
	now  func() time.Time
}

func newCrowd(vms int, now func() time.Time) *crowd {
	c := &crowd{now: now}
	c.snap = cloud.Snapshot{OwnerID: "111122223333", Networks: []cloud.Network{{ID: "vpc-1", Name: "all"}}}
	for n := range vms {
		nic := fmt.Sprintf("eni-%08x", n)
		c.snap.VMs = append(c.snap.VMs, cloud.VM{ID: fmt.Sprintf("i-%08x", n), Name: "vm", NetworkID: "vpc-1", State: cloud.VMRunning, Interfaces: []string{nic},
			Tags: map[string]string{"Name": "vm", "app": fmt.Sprint(n % 20), "env": "prod", "owner": "somebody"}})
		c.snap.Interfaces = append(c.snap.Interfaces, cloud.Interface{ID: nic, NetworkID: "vpc-1", VMID: fmt.Sprintf("i-%08x", n), GroupIDs: []string{"sg-1"},
			MAC: "0e:00:00:00:00:01", PrivateIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}})
	}
	return c
}

// Observe makes new values of everything, as reading does.
func (c *crowd) Observe(_ context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.snap
	out.Scope, out.ObservedAt = s, c.now()
	out.VMs, out.Interfaces = slices.Clone(out.VMs), slices.Clone(out.Interfaces)
	return &out, nil
}

func (c *crowd) Refresh(ctx context.Context, last *cloud.Snapshot, _ []string) (*cloud.Snapshot, error) {
	out, err := c.Observe(ctx, last.Scope)
	out.ObservedAt = last.ObservedAt
	return out, err
}

func (c *crowd) Apply(context.Context, cloud.Scope, cloud.Op) (string, error) { return "", nil }

func (c *crowd) Limits(context.Context, cloud.Scope) (cloud.Limits, error) {
	return cloud.Limits{}, nil
}

func (c *crowd) touch(n int, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tags := map[string]string{"app": value}
	for k, v := range c.snap.VMs[n].Tags {
		if k != "app" {
			tags[k] = v
		}
	}
	c.snap.VMs = slices.Clone(c.snap.VMs)
	c.snap.VMs[n].Tags = tags
}

// BenchmarkPass takes accounts of many VMs through a pass: the first one, one after which
// everything is as before, one after which a VM has another tag, and one that was told so by an
// event.
func BenchmarkPass(b *testing.B) {
	for _, vms := range []int{10_000, 100_000} {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		c := newCrowd(vms, func() time.Time { return now })
		s := &shelf{objects: map[string]client.Object{}}
		s.keep(&v1alpha1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: accountKey.Namespace, Name: accountKey.Name, Generation: 1},
			Spec: v1alpha1.CloudProviderAccountSpec{AWSConfig: &v1alpha1.CloudProviderAccountAWSConfig{Region: []string{oregon},
				SecretRef: &v1alpha1.SecretReference{Name: "none", Namespace: "none", Key: "none"}}}})
		s.keep(&v1alpha1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "all", UID: "1"},
			Spec: v1alpha1.CloudEntitySelectorSpec{AccountName: accountKey.Name, AccountNamespace: accountKey.Namespace,
				VMSelector: []v1alpha1.VirtualMachineSelector{wholeVPC("vpc-1")}}})
		inv := New(Options{Client: s, Secrets: secretShelf{}, Events: &events{}, Now: func() time.Time { return now },
			Clouds: map[v1alpha1.CloudProvider]accountspec.Open{v1alpha1.CloudProviderAWS: func(accountspec.Config) (cloud.Provider, error) { return c, nil }}})
		pass := func(b *testing.B) {
			b.Helper()
			if _, err := inv.Reconcile(context.Background(), request(accountKey)); err != nil {
				b.Fatal(err)
			}
		}
		begin := time.Now()
		pass(b)
		first := time.Since(begin)
		if n := len(inv.Entities("clouds/acc")); n != vms {
			b.Fatalf("%d entities", n)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.Logf("%d VMs: first pass %s, %d writes, %d MB in use afterwards", vms, first.Round(time.Millisecond), s.writes, m.HeapAlloc>>20)
		n := 0
		for _, k := range []struct {
			name string
			do   func()
		}{
			{"nothingChanged", func() { now = now.Add(time.Minute) }},
			{"oneChanged", func() { now = now.Add(time.Minute); n++; c.touch(n%vms, fmt.Sprint("x", n)) }},
			{"oneHeardOf", func() {
				now, n = now.Add(time.Second), n+1
				c.touch(n%vms, fmt.Sprint("x", n))
				a := inv.lookup("clouds/acc")
				a.mu.Lock()
				a.regions[oregon].next = now.Add(time.Hour)
				a.hint(cloud.Change{Region: oregon, IDs: []string{fmt.Sprintf("i-%08x", n%vms)}})
				a.mu.Unlock()
			}},
		} {
			b.Run(fmt.Sprintf("%d/%s", vms, k.name), func(b *testing.B) {
				writes := s.writes
				b.ReportAllocs()
				for b.Loop() {
					k.do()
					pass(b)
				}
				b.ReportMetric(float64(s.writes-writes)/float64(b.N), "writes/op")
			})
		}
	}
}

// secretShelf has every Secret.
type secretShelf struct{ client.Reader }

func (secretShelf) Get(_ context.Context, key types.NamespacedName, o client.Object, _ ...client.GetOption) error {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.String())
	}
	secret.Data = map[string][]byte{"none": []byte("{}")}
	return nil
}
