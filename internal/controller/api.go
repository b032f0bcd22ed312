package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/infos"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/registration"
	"github.com/nephele-io/nephele/internal/apiserver/roster"
	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/controller/agents"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/controller/flowlogs"
	"github.com/nephele-io/nephele/internal/controller/listen"
	"github.com/nephele-io/nephele/internal/controller/traffic"
	"github.com/nephele-io/nephele/internal/egress"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// The Service behind which enforcers look for the computed API.
const (
	APIService   = "antrea"
	APINamespace = "kube-system"
	// apiServerName is how a client on this machine, which needs no Service, knows the server's
	// certificate.
	apiServerName = APIService + "." + APINamespace + ".svc"
	// apiServicePort is the Service's port in a cluster.
	apiServicePort = 443
)

// The variables by which a Pod tells its process where that runs.
const (
	envPodName      = "POD_NAME"
	envPodNamespace = "POD_NAMESPACE"
	envNodeName     = "NODE_NAME"
)

// APIOptions say how the computed objects are served.
type APIOptions struct {
	// Address is the HOST:PORT to serve on.
	Address string
	// Namespace is that of the Service that leads there; empty means APINamespace.
	Namespace string
	// CertDir keeps the serving certificate; it is for this purpose only, and created if missing.
	CertDir string
	// TLSDir, instead of CertDir, holds tls.crt, tls.key and ca.crt, which somebody else renews.
	TLSDir string
	// Local says that kube-apiserver runs on this machine, too, and reaches the address without a
	// Service of the cluster.
	Local bool
	// Host, with Local, is the IP address in Address by which the API servers of other machines
	// reach this one, because all of them use one database. While another process leads, this one
	// then serves no caller here. Empty means that there is one API server.
	Host string
	// Enforcers says for which enforcers a caller may act; empty means its own key only.
	Enforcers apiserver.EnforcerAccess
	// WebhookClientCA is a PEM file with the authority of the certificate that kube-apiserver asks
	// the webhooks with, and WebhookClientNames are its common names that may; empty lets everybody
	// ask.
	WebhookClientCA    string
	WebhookClientNames []string
	// Limits bound what is held for callers.
	Limits limits.Limits
	// WithoutWebhooks leaves kube-apiserver unaware of the admission webhooks: what is wrong with
	// an object is then told in its status.
	WithoutWebhooks bool
}

// service is what leads to the server.
func (o *APIOptions) service() types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(o.Namespace, APINamespace), Name: APIService}
}

// hooks are the webhooks to register.
func (o *APIOptions) hooks() []webhook.Hook {
	if o.WithoutWebhooks {
		return nil
	}
	if o.Local && o.WebhookClientCA != "" {
		return append(webhook.Hooks(), webhook.WitnessHooks()...)
	}
	return webhook.Hooks()
}

// apiCertificate opens the certificate of the API.
func apiCertificate(o *APIOptions, clk clock.WithTicker) (*serving.Certificate, error) {
	name := o.service().Name + "." + o.service().Namespace + ".svc"
	if o.TLSDir != "" {
		return serving.Mounted(o.TLSDir, name, clk)
	}
	dir, err := certs.Open(o.CertDir, clk.Now)
	if err != nil {
		return nil, err
	}
	// Callers on this machine, and Antrea Agents, know the server by its usual name.
	ips := []net.IP{net.IPv4(127, 0, 0, 1)}
	if ip := net.ParseIP(o.Host); ip != nil {
		ips = append(ips, ip)
	}
	return serving.Open(dir, slices.Compact([]string{apiServerName, name, "localhost"}), ips, clk)
}

// serveAPI adds the API server of the computed objects and the webhooks, and its registration with
// kube-apiserver, to the manager.
func serveAPI(ctx context.Context, mgr manager.Manager, policies *control.Controller, vms *agents.InVMs, proc *process) error {
	var reports apiserver.Reports = policies
	if vms != nil {
		reports = vms.Reports(policies)
	}
	kube, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("serve the computed API: %w", err)
	}
	access, err := apiserver.Delegated(ctx, kube)
	if err != nil {
		return err
	}
	access = access.WithEnforcer(proc.loopback.token)
	if proc.API.WebhookClientCA != "" {
		if access, err = access.WithWebhookClients(proc.API.WebhookClientCA, proc.API.WebhookClientNames); err != nil {
			return fmt.Errorf("--webhook-client-ca %s: %w", proc.API.WebhookClientCA, err)
		}
	}
	clk := clock.RealClock{}
	hosts, err := serveHosts(ctx, mgr, clk, proc)
	if err != nil {
		return err
	}
	var hostAuthorities registration.Authorities // nil, and no pointer that is
	if hosts != nil {
		access, hostAuthorities = access.WithHosts(hosts.Desk), hosts.Desk
	}
	cert, err := apiCertificate(proc.API, clk)
	if err != nil {
		return fmt.Errorf("certificate of the computed API: %w", err)
	}
	proc.loopback.certificate.Store(cert)
	client, err := registration.NewClient(mgr.GetConfig())
	if err != nil {
		return err
	}
	var leads <-chan struct{}
	if proc.API.Host != "" {
		leads = mgr.Elected()
	}
	listener, err := listen.On(ctx, proc.API.Address, proc.API.Local, leads)
	if err != nil {
		return fmt.Errorf("serve the computed API: %w", err)
	}
	book := stats.New(clk)
	if err := book.Follow(ctx, mgr.GetCache()); err != nil {
		return err
	}
	pods := roster.New(clk.Now())
	if err := pods.Follow(ctx, mgr.GetCache()); err != nil {
		return err
	}
	groups := egress.NewGroups(uint64(clk.Now().UnixMicro()))
	egresses := &egress.Controller{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: APINamespace, Clock: clk, Log: proc.Log.WithName("egress")}
	selected := everywhere{&egress.Follower{Groups: groups, Informers: mgr.GetCache(), Clock: clk, Log: proc.Log.WithName("egress")}}
	if err := errors.Join(mgr.Add(egresses), mgr.Add(selected)); err != nil {
		return fmt.Errorf("look after Egresses: %w", err)
	}
	cluster, err := clouds.ClusterID(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	reviews, err := newReviews(ctx, mgr.GetCache(), mgr.GetCache(), mgr.GetAPIReader(), policies, cluster, func() error {
		_, _, err := policies.Store().Get(watchstore.NetworkPolicies, "")
		return err
	}, clk, proc)
	if err != nil {
		return err
	}
	reviews.set = proc.set
	proc.set.reviews.Store(reviews)
	proc.set.book.Store(book)
	if reviews.traffic, err = traffic.Open(ctx, mgr.GetCache(), clk, proc.Flows); err != nil {
		return err
	}
	if err := proc.metrics.show(traffic.NewMetrics(reviews.traffic)); err != nil {
		return err
	}
	if err := mgr.Add(reviews.traffic.Keep(proc.Log.WithName("flows"), clk)); err != nil {
		return fmt.Errorf("keep flows: %w", err)
	}
	alarm := traffic.NewAlarm(reviews.traffic, policies, mgr.GetEventRecorder("nephele-flows"), clk, proc.Log.WithName("flows"))
	if err := mgr.Add(alarm); err != nil {
		return fmt.Errorf("watch flows: %w", err)
	}
	if proc.clouds != nil {
		logs := flowlogs.New(mgr.GetClient(), reviews, reviews.traffic, mgr.GetEventRecorder("nephele-flows"), clk, proc.Flows.Dir, proc.Log.WithName("flow-logs"))
		if err := proc.metrics.show(logs); err != nil {
			return fmt.Errorf("read flow logs: %w", err)
		}
		if err := mgr.Add(logs); err != nil {
			return fmt.Errorf("read flow logs: %w", err)
		}
	}
	exports, err := reviews.traffic.Export(proc.Flows, proc.Version, cluster, clk, proc.Log.WithName("flows"))
	if err == nil {
		err = mgr.Add(exports)
	}
	if err != nil {
		return fmt.Errorf("export flows: %w", err)
	}
	api, err := apiserver.New(apiserver.Options{
		Listener:     listener,
		Certificate:  cert,
		Access:       access,
		Store:        policies.Store(),
		Reports:      reports,
		Queries:      policies,
		Reviews:      reviews,
		Statistics:   book,
		Traffic:      reviews.traffic,
		LocalPods:    pods,
		EgressGroups: groups,
		Enforcers:    proc.API.Enforcers,
		Hosts:        hosts,
		Metrics:      proc.metrics.api,
		Version:      proc.Version,
		Service:      proc.API.service(),
		Pod:          types.NamespacedName{Namespace: os.Getenv(envPodNamespace), Name: os.Getenv(envPodName)},
		Node:         os.Getenv(envNodeName),
		Process:      proc.Process,
		LogLevel:     proc.LogLevel,
		Bundle:       bundle(mgr.GetAPIReader(), policies.Store(), clk, proc.Options),
		Webhooks: webhook.Witnessed(
			webhook.Reading{Reader: mgr.GetClient(), Proven: proc.API.WebhookClientCA != ""},
			webhook.Reading{Reader: mgr.GetAPIReader(), Live: true},
			proc.witness(),
		),
		Limits: proc.API.Limits,
		Logger: proc.Log.WithName("api"),
	})
	if err != nil {
		return err
	}
	proc.loopback.server = api
	port, hostServer := int32(apiServicePort), ""
	if proc.API.Local {
		at := listener.Addr().(*net.TCPAddr)
		port, hostServer = int32(at.Port), at.String()
		if at.IP.IsUnspecified() {
			hostServer = fmt.Sprintf(":%d", at.Port)
		}
	}
	registered := &registration.Registration{
		Client: client, Service: proc.API.service(), Authority: APINamespace, Port: port, Local: proc.API.Local, Host: proc.API.Host,
		CABundle: cert.CABundle,
		Hosts:    hostAuthorities, HostServer: hostServer, Changed: cert.Changed(), Hooks: proc.API.hooks(), Registered: proc.Ready, Clock: clk, Logger: proc.Log.WithName("register"),
	}
	keeper := infos.New(infos.Keeper{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Server: api, Clock: clk, Logger: proc.Log.WithName("infos"),
	})
	if err := keeper.Follow(ctx, mgr.GetCache()); err != nil {
		return err
	}
	for _, r := range []manager.Runnable{api, registered, keeper} {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("serve the computed API: %w", err)
		}
	}
	return nil
}

// serveHosts opens the desk for hosts with certificates of their own. Without the right to keep the
// authority for them, as after an upgrade of the program alone, there are none, and all else goes
// on.
func serveHosts(ctx context.Context, mgr manager.Manager, clk clock.WithTicker, proc *process) (*apiserver.Hosts, error) {
	desk, err := enroll.OpenDesk(ctx, enroll.DeskOptions{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: APINamespace, Clock: clk, Log: proc.Log.WithName("hosts"),
		Machines: func(ctx context.Context, account types.NamespacedName) ([]cloudv1.VirtualMachine, error) {
			var vms cloudv1.VirtualMachineList
			// They are only read, and many.
			err := mgr.GetClient().List(ctx, &vms, client.MatchingFields{inventory.FieldAccount: cloud.AccountKey(account.Namespace, account.Name)}, client.UnsafeDisableDeepCopy)
			return vms.Items, err
		},
	})
	if apierrors.IsForbidden(err) {
		proc.Log.Info("No host can enroll by a token: apply config/controller again, which lets the controller keep an authority for hosts", "reason", err.Error())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := desk.Follow(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	clusters := manager.RunnableFunc(func(ctx context.Context) error { return desk.FollowClusters(ctx, mgr.GetCache()) })
	if err := errors.Join(mgr.Add(clusters), mgr.Add(everywhere{manager.RunnableFunc(desk.Keep)})); err != nil {
		return nil, fmt.Errorf("certificates of hosts and clusters: %w", err)
	}
	return &apiserver.Hosts{Desk: desk, Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Members: proc.set.hub}, nil
}
