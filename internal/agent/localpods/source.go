// Package localpods lists and watches the Pods of a Node for its agent: as the controller serves
// them, without anything of a Pod that an agent does not need. Where the controller is of a former
// release and serves none, they are read in the cluster; an agent without that right learns of no
// new Pods then, keeps the ones that it has, and reports why.
//
// A list is whole or an error: one that fails, is damaged, or is older than what is known already
// is not taken, and is asked for again. Source is safe for concurrent use.
package localpods

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// Server is the controller.
type Server interface {
	LocalPods(ctx context.Context, node string) (*analysis.LocalPodList, error)
	// WatchLocalPods goes on from the position of a list or of an earlier event, and ends after so
	// many seconds, if they are not nil.
	WatchLocalPods(ctx context.Context, node, position string, seconds *int64) (watch.Interface, error)
}

// staleLimit is how long lists are refused that are older than what is known: as long as another
// controller may need to receive what the former one had. A cluster that was put back to an
// earlier state is believed after that.
const staleLimit = time.Minute

// retryInterval is how soon a list that failed is tried again.
const retryInterval = 2 * time.Second

// Options are what a Source needs; all of them.
type Options struct {
	Server Server
	// Cluster lists and watches the Pods of the Node without the controller.
	Cluster cache.ListerWatcher
	Node    string
	Clock   clock.Clock
	Log     logr.Logger
}

// Source lists and watches the Pods of a Node. Use New.
type Source struct {
	Options
	cluster cache.ListerWatcherWithContext
	// changed is called when lists begin or cease to fail.
	changed func()

	mu sync.Mutex
	// direct says that the last list was read in the cluster.
	direct bool
	// newest is the highest version of Pods that was received; 0 if none is known. staleSince is
	// since when lists have been older than that.
	newest     uint64
	staleSince time.Time
	// failed is why lists fail.
	failed string
}

// New returns a Source.
func New(o Options) *Source {
	return &Source{Options: o, cluster: cache.ToListerWatcherWithContext(o.Cluster), changed: func() {}}
}

// listWatch is a ListWatch that begins with a list. The server could do without, the cluster
// behind it need not.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is what client-go asks.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// ListerWatcher returns what an informer of Pods needs. Changed is called when Problem may say
// something else.
func (s *Source) ListerWatcher(changed func()) cache.ListerWatcher {
	s.changed = changed
	return listWatch{&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}}
}

// Problem is why it is not known which Pods there are now; empty if it is, or if s is nil.
func (s *Source) Problem() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// list returns a list as soon as there is one. The pauses of client-go grow to half a minute, and
// new Pods wait for the list.
func (s *Source) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue != "" { // of the cluster's list
		return s.cluster.ListWithContext(ctx, o)
	}
	for {
		list, err := s.listOnce(ctx, o)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if s.note(err); err == nil {
			return list, nil
		}
		select {
		case <-s.Clock.After(retryInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// note keeps why the last list failed, or that it did not.
func (s *Source) note(err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("which Pods the Node has now is not known, and the known ones stay guarded: %v", err)
	}
	s.mu.Lock()
	changed := text != s.failed
	s.failed = text
	s.mu.Unlock()
	if !changed {
		return
	}
	if err != nil {
		s.Log.Info("The Pods of the Node cannot be listed; the known ones stay guarded", "reason", err.Error())
	} else {
		s.Log.Info("The Pods of the Node are known")
	}
	s.changed()
}

func (s *Source) listOnce(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := s.Server.LocalPods(ctx, s.Node)
	if apierrors.IsNotFound(err) {
		return s.listDirectly(ctx, o, err)
	}
	if err != nil {
		return nil, err
	}
	out := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: list.ResourceVersion}}
	for i := range list.Items {
		p, err := podOf(&list.Items[i])
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, *p)
	}
	return out, s.take(false, list.AsOf)
}

// listDirectly lists by way of the cluster, as the server does not know what it was asked.
func (s *Source) listDirectly(ctx context.Context, o metav1.ListOptions, why error) (runtime.Object, error) {
	s.mu.Lock()
	if !s.direct {
		o.ResourceVersion, o.ResourceVersionMatch = "", "" // that of the other
	}
	s.mu.Unlock()
	list, err := s.cluster.ListWithContext(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("the controller serves no Pods of Nodes (%w), nor can they be read in the cluster: %w", why, err)
	}
	newest := ""
	if m, err := meta.ListAccessor(list); err == nil {
		newest = m.GetResourceVersion()
	}
	s.Log.V(1).Info("The controller serves no Pods of Nodes; they are read in the cluster", "reason", why.Error())
	return list, s.take(true, newest)
}

// take notes where a list is from and how new it is, unless it is older than what is known.
func (s *Source) take(direct bool, newest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, ok := parseVersion(newest)
	switch now := s.Clock.Now(); {
	case !ok || version >= s.newest:
		s.staleSince = time.Time{}
	case s.staleSince.IsZero() || now.Before(s.staleSince):
		s.staleSince = now
		return errStale(version, s.newest)
	case now.Sub(s.staleSince) < staleLimit:
		return errStale(version, s.newest)
	default:
		s.Log.Info("The Pods of the cluster are older than they were, and taken as they are now", "version", version, "former", s.newest)
		s.staleSince = time.Time{}
	}
	s.direct = direct
	if ok {
		s.newest = version
	}
	return nil
}

func errStale(version, newest uint64) error {
	return fmt.Errorf("the list of Pods is older (version %d) than what is known (version %d)", version, newest)
}

// parseVersion reads a resourceVersion of Kubernetes, which says nothing if it is no number.
func parseVersion(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

func (s *Source) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	direct := s.direct
	s.mu.Unlock()
	if direct {
		if _, err := s.Server.LocalPods(ctx, s.Node); err == nil {
			return nil, apierrors.NewResourceExpired("the controller serves the Pods of the Node now")
		}
		return s.cluster.WatchWithContext(ctx, o)
	}
	w, err := s.Server.WatchLocalPods(ctx, s.Node, o.ResourceVersion, o.TimeoutSeconds)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, s.event), nil
}

// event makes an event about a Pod of one about what is served of it.
func (s *Source) event(e watch.Event) (watch.Event, bool) {
	served, ok := e.Object.(*analysis.LocalPod)
	if !ok { // an error
		return e, true
	}
	if e.Type == watch.Bookmark {
		e.Object = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: served.ResourceVersion}}
		return e, true
	}
	p, err := podOf(served)
	if err != nil {
		refused := apierrors.NewInternalError(err).Status()
		return watch.Event{Type: watch.Error, Object: &refused}, true
	}
	if version, ok := parseVersion(served.PodVersion); ok {
		s.mu.Lock()
		s.newest = max(s.newest, version)
		s.mu.Unlock()
	}
	e.Object = p
	return e, true
}

// podOf is the Pod of which is served.
func podOf(n *analysis.LocalPod) (*corev1.Pod, error) {
	if n.Namespace == "" || n.Name == "" || n.UID == "" {
		return nil, fmt.Errorf("LocalPod %q/%q with uid %q: want all three", n.Namespace, n.Name, n.UID)
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, CreationTimestamp: n.CreationTimestamp}}
	for name, value := range map[string]string{analysis.AnnotationIngressBandwidth: n.IngressBandwidth, analysis.AnnotationEgressBandwidth: n.EgressBandwidth} {
		if value != "" {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, name, value)
		}
	}
	for i, a := range n.Addresses {
		if i == 0 {
			p.Status.PodIP = a
		}
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	if len(n.HostPorts) > 0 {
		c := corev1.Container{}
		for _, h := range n.HostPorts {
			c.Ports = append(c.Ports, corev1.ContainerPort{Protocol: corev1.Protocol(h.Protocol), HostIP: h.Address, HostPort: h.Port, ContainerPort: h.ContainerPort})
		}
		p.Spec.Containers = []corev1.Container{c}
	}
	return p, nil
}

// Trim leaves of a Pod what Source gives of it, however it was read. It is a transformation for
// informers.
func Trim(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: runtimeUID(p), ResourceVersion: p.ResourceVersion, CreationTimestamp: p.CreationTimestamp},
		Spec:       corev1.PodSpec{HostNetwork: p.Spec.HostNetwork, Containers: portsOfNode(p.Spec.Containers)},
		Status:     corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs},
	}
	for _, name := range []string{analysis.AnnotationIngressBandwidth, analysis.AnnotationEgressBandwidth} {
		if value, has := p.Annotations[name]; has {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, name, value)
		}
	}
	return out, nil
}

// runtimeUID is the UID by which the runtime of the Node knows a Pod: that of a static Pod is not
// that of the object that shows it in the API.
func runtimeUID(p *corev1.Pod) types.UID {
	if static := p.Annotations[corev1.MirrorPodAnnotationKey]; static != "" {
		return types.UID(static)
	}
	return p.UID
}

// portsOfNode are the containers of a Pod with the ports of the Node that they want, and nothing
// else of them.
func portsOfNode(list []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range list {
		ports := slices.DeleteFunc(slices.Clone(c.Ports), func(p corev1.ContainerPort) bool {
			return p.HostPort < 1 || p.HostPort > 65535 || p.ContainerPort < 1 || p.ContainerPort > 65535
		})
		if len(ports) > 0 {
			out = append(out, corev1.Container{Name: c.Name, Ports: ports})
		}
	}
	return out
}

// ParseRate reads what an annotation about bandwidth wants: bits a second, between two bounds.
func ParseRate(text string, least, most int64) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() < least || q.Value() > most {
		return 0, fmt.Errorf("%.40q: want bits a second, from 1k to 1P", text)
	}
	return q.Value(), nil
}
