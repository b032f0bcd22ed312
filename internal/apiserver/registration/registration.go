// Package registration makes kube-apiserver forward API groups to a server, and ask its webhooks.
//
// It owns the objects by which that is done: the APIServices, the webhook configurations, the
// ConfigMap with the CA bundle, and for a server outside the cluster network the Service that leads
// to it. What another program has made is never changed. A Registration is a manager.Runnable;
// Withdraw removes what one has left.
package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/apiserver/groups"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

const (
	// interval is how often a registration is looked after, retry how soon
	// after a failure.
	interval = 30 * time.Second
	retry    = time.Second
	// availabilityInterval is how often kube-apiserver is asked whether it reaches the API, until
	// it does.
	availabilityInterval = 50 * time.Millisecond
	// ManagedBy is the label of the objects that a controller of ours has made, with the value
	// Nephele.
	ManagedBy, Nephele = "app.kubernetes.io/managed-by", "nephele"
	// localhost is how an API server on the same machine reaches the server.
	localhost = "localhost"
	// priority of the group and of the version among others.
	priority = 100
)

// Registration makes kube-apiserver forward the API group to a server, and ask it about what is to
// be stored: it keeps the webhook configurations, the APIServices and the ConfigMap for agents with
// the current CA bundle, and for a server outside the cluster network the Service that leads to it.
// An object of the same name that somebody else has made, such as an Antrea Controller, is left
// alone, which is an error. In a cluster the objects are there before, from config/, so that it
// needs no right to make or delete any: it makes what is missing where it may, and deletes nothing.
// All fields are required but Authority, Local, Host, Hosts, HostServer, Hooks, Changed,
// Registered and Logger.
type Registration struct {
	// Client is one that NewClient returns.
	Client client.Client
	// Service is reached by kube-apiserver; the certificate must name NAME.NAMESPACE.svc.
	Service types.NamespacedName
	// Authority is the namespace of the ConfigMap with the CA bundle; empty means that of the
	// Service.
	Authority string
	// Port of the Service.
	Port int32
	// Local says that kube-apiserver reaches the server without a Service of a cluster: the Service
	// is created, and leads to Host.
	Local bool
	// Host is the address by which all API servers of the database reach the server; empty means
	// localhost, if there is one API server, on this machine.
	Host string
	// CABundle returns the present bundle; Changed says that it has changed.
	CABundle func() []byte
	Changed  <-chan struct{}
	// Hosts are the authorities for hosts; nil without hosts.
	Hosts Authorities
	// HostServer is where hosts reach the server, HOST:PORT or :PORT; empty if it does not know.
	HostServer string
	// Hooks are the webhooks of the server; without any, webhook configurations of ours are
	// removed.
	Hooks []webhook.Hook
	// Registered is called once, when everything has been registered and kube-apiserver reaches the
	// API, or when something will not be registered because it is somebody else's.
	Registered func()
	Clock      clock.WithTicker
	Logger     logr.Logger
}

// Authorities are the authorities by which hosts know the server; enroll.Desk describes the
// methods.
type Authorities interface {
	Bundle() []byte
	Turns() time.Time
}

// NewClient returns a client of the objects of a Registration.
func NewClient(cfg *rest.Config) (client.Client, error) {
	known, err := scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: known})
	if err != nil {
		return nil, fmt.Errorf("register the API: %w", err)
	}
	return c, nil
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), apiregistrationv1.AddToScheme(s), admissionregistrationv1.AddToScheme(s)); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	return s, nil
}

// Start keeps the objects until ctx ends. They stay when it does. It is a manager.Runnable.
func (r *Registration) Start(ctx context.Context) error {
	for registered := false; ; {
		wait := interval
		available, err := r.ensure(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			r.Logger.Error(err, "Registering the API failed, trying again")
			wait = retry
		case !available && !registered:
			wait = availabilityInterval
		}
		if !registered && (available || errors.Is(err, errForeign)) {
			registered = true
			if r.Registered != nil {
				r.Registered()
			}
		}
		timer := r.Clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-r.Changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// errForeign is why an object is not registered that somebody else has made.
var errForeign = errors.New("somebody else's")

// ensure brings everything up to date. The webhooks come first: as long as they lead nowhere, what
// they are about cannot be written by anybody. It reports whether kube-apiserver reaches the API.
func (r *Registration) ensure(ctx context.Context) (available bool, err error) {
	bundle := r.CABundle()
	hooksErr := r.ensureWebhooks(ctx, bundle)
	available, err = r.ensureAPI(ctx, bundle)
	return available, errors.Join(hooksErr, err, r.PublishAuthorities(ctx, bundle))
}

func (r *Registration) ensureAPI(ctx context.Context, bundle []byte) (available bool, err error) {
	if r.Local {
		service := &corev1.Service{
			ObjectMeta: r.meta(r.Service),
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: cmp.Or(r.Host, localhost)},
		}
		present := &corev1.Service{}
		err := r.keep(ctx, service, present, func() bool {
			same := present.Spec.Type == service.Spec.Type && present.Spec.ExternalName == service.Spec.ExternalName
			present.Spec.Type, present.Spec.ExternalName = service.Spec.Type, service.Spec.ExternalName
			return same
		})
		if err != nil {
			return false, err
		}
	}
	available = true
	for _, gv := range groups.Versions() {
		reached, err := r.ensureGroup(ctx, gv, bundle)
		if err != nil {
			return false, err
		}
		available = available && reached
	}
	return available, nil
}

// ensureGroup keeps the APIService of one version of a group.
func (r *Registration) ensureGroup(ctx context.Context, gv schema.GroupVersion, bundle []byte) (available bool, err error) {
	api := r.apiService(gv, bundle)
	present := &apiregistrationv1.APIService{}
	err = r.keep(ctx, api, present, func() bool {
		same := equality.Semantic.DeepEqual(present.Spec, api.Spec)
		present.Spec = api.Spec
		for _, c := range present.Status.Conditions {
			available = available || same && c.Type == apiregistrationv1.Available && c.Status == apiregistrationv1.ConditionTrue
		}
		return same
	})
	return available, err
}

func (r *Registration) apiService(gv schema.GroupVersion, bundle []byte) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: r.meta(types.NamespacedName{Name: gv.Version + "." + gv.Group}),
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority, VersionPriority: priority, CABundle: bundle,
			Service: &apiregistrationv1.ServiceReference{Namespace: r.Service.Namespace, Name: r.Service.Name, Port: &r.Port},
		},
	}
}

func (r *Registration) meta(name types.NamespacedName) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{ManagedBy: Nephele}}
}

// keep makes an object, or brings it up to date: adapt changes the present one to what it should
// be, and reports whether it was so already.
func (r *Registration) keep(ctx context.Context, want, present client.Object, adapt func() bool) error {
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), present)
	switch {
	case apierrors.IsNotFound(err):
		if err := r.Client.Create(ctx, want); apierrors.IsForbidden(err) {
			return fmt.Errorf("register the API: %T %s is not there, and the right to make it is missing: apply config/controller again (%w)", want, want.GetName(), err)
		} else if err != nil {
			return fmt.Errorf("register the API: %w", err)
		}
		r.Logger.Info("Registered the API", "name", want.GetName())
		return nil
	case err != nil:
		return fmt.Errorf("register the API: %w", err)
	case present.GetLabels()[ManagedBy] != Nephele:
		return fmt.Errorf("register the API: %T %s is %w: it lacks the label %s=%s", want, want.GetName(), errForeign, ManagedBy, Nephele)
	case adapt():
		return nil
	}
	if err := r.Client.Update(ctx, present); err != nil {
		return fmt.Errorf("register the API: %w", err)
	}
	return nil
}
