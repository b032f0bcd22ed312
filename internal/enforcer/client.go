package enforcer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	stats "github.com/nephele-io/nephele/api/stats/v1alpha1"
)

const (
	// openLimit bounds the wait for the answer to a watch; its events may take any time.
	openLimit = 30 * time.Second
	// reportLimit bounds a report.
	reportLimit = 10 * time.Second
)

// errEnded is the error of a stream that the server has ended in order, as servers do every few
// hours.
var errEnded = errors.New("the server ended the watch")

// ClientOptions say which server a Client uses. Config is required.
type ClientOptions struct {
	// Config leads to the server, directly or through kube-apiserver. It is asked for every watch
	// and every report, so that authorities and credentials that were replaced are used from then
	// on. Limits of time and rate in it are ignored.
	Config func() (*rest.Config, error)
	// JSON asks for JSON instead of protobuf, to look at the wire. A server may answer with JSON
	// anyway.
	JSON bool
}

// Client is a server of computed objects, as a Source and as the receiver of reports.
type Client struct {
	options ClientOptions
	codecs  runtime.NegotiatedSerializer
	told    ledger
}

// NewClient returns a Client. It connects to nothing yet.
func NewClient(o ClientOptions) (*Client, error) {
	if o.Config == nil {
		return nil, errors.New("enforcer: Config must be given")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta2.AddToScheme(scheme), analysis.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("enforcer: build the scheme: %w", err)
	}
	return &Client{options: o, codecs: serializer.NewCodecFactory(scheme).WithoutConversion()}, nil
}

// rest returns a client with the present configuration. Connections are shared as long as that
// stays the same.
func (c *Client) rest() (*rest.RESTClient, error) {
	given, err := c.options.Config()
	if err != nil {
		return nil, fmt.Errorf("find the policy server: %w", err)
	}
	cfg, gv := rest.CopyConfig(given), v1beta2.GroupVersion()
	cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = "/apis", &gv, c.codecs
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, ""
	if c.options.JSON {
		cfg.ContentType = runtime.ContentTypeJSON
	}
	cfg.Timeout, cfg.QPS, cfg.RateLimiter = 0, -1, nil
	if cfg.UserAgent == "" {
		cfg.UserAgent = "nephele-enforcer"
	}
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("find the policy server: %w", err)
	}
	return client, nil
}

// Watch implements Source. An empty key represents everything.
func (c *Client) Watch(ctx context.Context, r Resource, key string) (Stream, error) {
	client, err := c.rest()
	if err != nil {
		return nil, err
	}
	request := client.Get().Resource(string(r)).Param("watch", "true").MaxRetries(0)
	if key != "" {
		request = request.Param("fieldSelector", fields.OneTermEqualSelector("nodeName", key).String())
	}
	w, cancel, err := open(ctx, request)
	if err != nil {
		return nil, err
	}
	if r == NetworkPolicies {
		c.told.forget(key)
	}
	return &stream{client: c, key: key, watch: w, cancel: cancel}, nil
}

// open begins a watch, and returns what ends it at once.
func open(ctx context.Context, request *rest.Request) (watch.Interface, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(openLimit, cancel)
	w, err := request.Watch(ctx)
	if !late.Stop() {
		if err == nil {
			w.Stop()
		}
		err = fmt.Errorf("the server does not answer within %s", openLimit)
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return w, cancel, nil
}

// stream is a watch over the network.
type stream struct {
	client *Client
	key    string
	watch  watch.Interface
	cancel context.CancelFunc
}

// Next implements Stream.
func (s *stream) Next(ctx context.Context) (watch.Event, error) {
	select {
	case ev, ok := <-s.watch.ResultChan():
		if !ok {
			return watch.Event{}, errEnded
		}
		if p, ok := ev.Object.(*v1beta2.NetworkPolicy); ok && ev.Type != watch.Bookmark {
			s.client.told.forgetPolicy(s.key, p.Name)
		}
		return ev, nil
	case <-ctx.Done():
		return watch.Event{}, ctx.Err()
	}
}

// Stop implements Stream.
func (s *stream) Stop() {
	s.cancel()
	s.watch.Stop()
}

// Report posts the status of one policy, whose uid is its name, unless the server has been told the
// same since the watch of the key's policies began and since the policy last changed. It fails with
// an error of the API if the server has answered with one.
func (c *Client) Report(ctx context.Context, s *v1beta2.NetworkPolicyStatus) error {
	_, err := c.report(ctx, s)
	return err
}

// report is Report, and says whether something was posted.
func (c *Client) report(ctx context.Context, s *v1beta2.NetworkPolicyStatus) (posted bool, err error) {
	known, note := c.told.check(s)
	if known {
		return false, nil
	}
	client, err := c.rest()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	if err := client.Post().Resource(string(NetworkPolicies)).Name(s.Name).SubResource("status").Body(s).MaxRetries(0).Do(ctx).Error(); err != nil {
		return true, fmt.Errorf("report on policy %s: %w", s.Name, err)
	}
	note()
	return true, nil
}

// Statistics posts what an enforcer has counted since the last time.
func (c *Client) Statistics(ctx context.Context, s *v1beta2.NodeStatsSummary) error {
	client, err := c.rest()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	if err := client.Post().Resource("nodestatssummaries").Body(s).MaxRetries(0).Do(ctx).Error(); err != nil {
		return fmt.Errorf("send statistics: %w", err)
	}
	return nil
}

// Traffic posts what an enforcer has seen of connections.
func (c *Client) Traffic(ctx context.Context, r *analysis.TrafficReport) error {
	r.APIVersion, r.Kind = analysis.GroupVersion().String(), "TrafficReport"
	return c.post(ctx, "traffic", analysis.GroupVersion().String()+"/trafficreports", r)
}

// Latency posts what a Node has measured of its way to the others.
func (c *Client) Latency(ctx context.Context, s *stats.NodeLatencyStats) error {
	s.APIVersion, s.Kind = stats.GroupVersion().String(), "NodeLatencyStats"
	return c.post(ctx, "latency", stats.GroupVersion().String()+"/nodelatencystats", s)
}

// post posts an object to a path below /apis.
func (c *Client) post(ctx context.Context, what, path string, object any) error {
	client, err := c.rest()
	if err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("send %s: %w", what, err)
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	err = client.Post().AbsPath("/apis/"+path).SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).Body(body).MaxRetries(0).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("send %s: %w", what, err)
	}
	return nil
}

// LocalPods lists the Pods of a Node.
func (c *Client) LocalPods(ctx context.Context, node string) (*analysis.LocalPodList, error) {
	request, err := c.localPods(node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	list := &analysis.LocalPodList{}
	return list, request.Do(ctx).Into(list)
}

// WatchLocalPods watches the Pods of a Node from a position on, for so long if that is not nil.
func (c *Client) WatchLocalPods(ctx context.Context, node, position string, seconds *int64) (watch.Interface, error) {
	request, err := c.localPods(node)
	if err != nil {
		return nil, err
	}
	if seconds != nil {
		request = request.Param("timeoutSeconds", strconv.FormatInt(*seconds, 10))
	}
	w, cancel, err := open(ctx, request.Param("watch", "true").Param("resourceVersion", position))
	if err != nil {
		return nil, err
	}
	return &ending{w, cancel}, nil
}

func (c *Client) localPods(node string) (*rest.Request, error) {
	client, err := c.rest()
	if err != nil {
		return nil, err
	}
	return client.Get().AbsPath("/apis/"+analysis.GroupVersion().String()+"/localpods").SetHeader("Accept", runtime.ContentTypeJSON).
		Param("fieldSelector", fields.OneTermEqualSelector("nodeName", node).String()).MaxRetries(0), nil
}

// ending is a watch that gives back the context of its request when it is stopped.
type ending struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (e *ending) Stop() {
	e.cancel()
	e.Interface.Stop()
}

// KnowsPod reports whether the server takes a Pod into account in what it computes. What it has
// computed before it says so, watches that begin later begin with.
func (c *Client) KnowsPod(ctx context.Context, namespace, name string) (bool, error) {
	client, err := c.rest()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	err = client.Get().Namespace(namespace).Resource("groupassociations").Name(name).MaxRetries(0).Do(ctx).Error()
	if about := apierrors.APIStatus(nil); errors.As(err, &about) && apierrors.IsNotFound(err) && about.Status().Details != nil && about.Status().Details.Name != "" {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask about Pod %s/%s: %w", namespace, name, err)
	}
	return true, nil
}

// statusError makes an error of the object of an Error event.
func statusError(o runtime.Object) error {
	if s, ok := o.(*metav1.Status); ok {
		return apierrors.FromObject(s)
	}
	return fmt.Errorf("%T %v", o, o)
}
