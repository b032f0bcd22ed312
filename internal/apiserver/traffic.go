package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// Traffic takes what enforcers have seen of connections.
type Traffic interface {
	// Add takes in a report of the enforcer with the key. Policy returns what a policy is called
	// that it was given. An error is about the report, of which nothing is taken then.
	Add(enforcer string, r *analysis.TrafficReportSpec, policy func(uid string) (kind, namespace, name string, known bool)) error
}

const (
	// reportsPerSecond and reportsAtOnce bound the reports of one enforcer. An agent sends one in
	// two seconds, or ten if it has seen as much as it remembers, and after the controller was away
	// what has waited.
	reportsPerSecond = 10
	reportsAtOnce    = 100
	// mostPaced is of how many enforcers it is remembered how fast they report.
	mostPaced = 10_000
)

// trafficReports takes what enforcers have seen.
type trafficReports struct {
	storage.Resource
	traffic Traffic
	given   given
	gate    gate
	metrics *Metrics

	mu    sync.Mutex
	paces map[string]*rate.Limiter
}

var _ rest.Creater = (*trafficReports)(nil)

func newTrafficReports(o Options, g gate) rest.Storage {
	r := storage.New(schema.GroupResource{Group: analysis.GroupName, Resource: "trafficreports"}, "trafficreport", false, func() runtime.Object { return &analysis.TrafficReport{} })
	return &trafficReports{Resource: r, traffic: o.Traffic, given: given{o.Store, o.Enforcers}, gate: g, metrics: o.Metrics, paces: map[string]*rate.Limiter{}}
}

// Create implements rest.Creater. The answer is empty.
func (s *trafficReports) Create(ctx context.Context, object runtime.Object, _ rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	report, ok := object.(*analysis.TrafficReport)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a TrafficReport", object))
	}
	if report.Name == "" {
		return nil, apierrors.NewBadRequest("metadata.name is empty, want the key of the enforcer")
	}
	key := report.Name
	if err := s.gate.allow(ctx, s.Group, key, key); err != nil {
		return nil, err
	}
	if !s.pace(key).Allow() {
		s.metrics.limit("trafficreports")
		why := fmt.Sprintf("enforcer %q sends more than %d reports of traffic a second, which is as many as may be; send larger ones", key, reportsPerSecond)
		return nil, apierrors.NewTooManyRequests(why, int(limits.Retry/time.Second))
	}
	if dryRun(options) {
		return &analysis.TrafficReport{}, nil
	}
	if err := s.traffic.Add(key, &report.Spec, func(uid string) (string, string, string, bool) { return s.given.policy(key, uid) }); err != nil {
		return nil, apierrors.NewBadRequest(errors.Join(errors.New("this is no report of traffic"), err).Error())
	}
	return &analysis.TrafficReport{}, nil
}

// policy returns what a policy is called that an enforcer was given.
func (g given) policy(key, uid string) (kind, namespace, name string, known bool) {
	if !g.Concerns(key, types.UID(uid)) {
		return "", "", "", false
	}
	object, _, err := g.store.Get(watchstore.NetworkPolicies, uid)
	p, ok := object.(*v1beta2.NetworkPolicy)
	if err != nil || !ok || p.SourceRef == nil {
		return "", "", "", false
	}
	return string(p.SourceRef.Type), p.SourceRef.Namespace, p.SourceRef.Name, true
}

func (s *trafficReports) pace(key string) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.paces[key]
	if p == nil {
		if len(s.paces) >= mostPaced {
			clear(s.paces)
		}
		p = rate.NewLimiter(reportsPerSecond, reportsAtOnce)
		s.paces[key] = p
	}
	return p
}
