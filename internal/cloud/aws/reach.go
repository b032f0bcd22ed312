package aws

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/rds"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// reach is where the requests of one account may go: to the services of AWS, and to the endpoint
// that the account names, if the operator allows it, or those that the operator's own environment
// names. It is the only place that decides that; every request passes it.
type reach struct {
	// endpoint is the account's, nil if it names none.
	endpoint *url.URL
	// rules are the operator's; nil means that the maker of the Config guarantees the endpoint.
	rules *egress.Rules
	// ambient is set if the requests carry the identity of the controller.
	ambient bool
	// operators are the "host" or "host:port" of the endpoints that the operator's environment
	// names.
	operators []string
}

// newReach refuses an endpoint that is none, or that is known not to be allowed.
func newReach(cfg Config) (reach, error) {
	r := reach{rules: cfg.Allowed, ambient: cfg.ambient()}
	if cfg.Endpoint != "" {
		u, err := url.Parse(cfg.Endpoint)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return r, fmt.Errorf("endpoint %q is not an http or https URL with a host", cfg.Endpoint)
		}
		if r.rules != nil {
			if err := r.rules.Check(u); err != nil {
				return r, r.notAllowed("endpoint "+cfg.Endpoint, err)
			}
		}
		r.endpoint = u
	}
	if r.ambient {
		r.operators = operatorEndpoints(cfg.Ambient.Config)
	}
	return r, nil
}

// operatorEndpoints are the hosts that the environment of the process names for the services that
// are called.
func operatorEndpoints(ambient awssdk.Config) []string {
	var out []string
	for _, endpoint := range []*string{ec2.NewFromConfig(ambient).Options().BaseEndpoint, sts.NewFromConfig(ambient).Options().BaseEndpoint,
		sqs.NewFromConfig(ambient).Options().BaseEndpoint, rds.NewFromConfig(ambient).Options().BaseEndpoint,
		elasticache.NewFromConfig(ambient).Options().BaseEndpoint, elasticloadbalancingv2.NewFromConfig(ambient).Options().BaseEndpoint,
		efs.NewFromConfig(ambient).Options().BaseEndpoint, lambda.NewFromConfig(ambient).Options().BaseEndpoint} {
		if u, err := url.Parse(awssdk.ToString(endpoint)); err == nil && u.Host != "" {
			out = append(out, u.Host)
		}
	}
	return out
}

func (r reach) notAllowed(what string, err error) error {
	return &cloud.NotGrantedError{
		Err:     err,
		Message: fmt.Sprintf("%s is not allowed: %v; the controller allows %s by --allowed-endpoints, besides the services of AWS", what, err, r.rules),
	}
}

// check refuses a URL that requests of the account may not go to.
func (r reach) check(u *url.URL) error {
	switch {
	case r.isEndpoint(u), slices.Contains(r.operators, u.Host), u.Scheme == "https" && serviceHost.MatchString(u.Hostname()):
		return nil
	case cloudHost.MatchString(u.Hostname()):
		return fmt.Errorf("%w: %s is not the name of a service of AWS", cloud.ErrRegionUnknown, u.Hostname())
	}
	return &cloud.NotGrantedError{Message: fmt.Sprintf("%s is neither a service of AWS nor the endpoint of the account", u.Host)}
}

// chosen reports whether the account chose its endpoint among those that the operator's rules allow
// without naming it.
func (r reach) chosen() bool {
	return r.endpoint != nil && r.rules != nil && !r.rules.Vouches(r.endpoint)
}

func (r reach) isEndpoint(u *url.URL) bool {
	return r.endpoint != nil && u.Scheme == r.endpoint.Scheme && strings.EqualFold(u.Host, r.endpoint.Host)
}

// checkQueue refuses the URL of a queue by the same rule. No request goes to its host, for the SDK
// asks SQS of the queue's region, but what it looks like must not depend on that.
func (r reach) checkQueue(queue string) error {
	u, err := url.Parse(queue)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("event queue %q is not an http or https URL with a host", queue)
	}
	if queueHost.MatchString(u.Hostname()) || r.isEndpoint(u) || slices.Contains(r.operators, u.Host) {
		return nil
	}
	if r.ambient {
		return &cloud.NotGrantedError{Message: fmt.Sprintf("event queue %s is not one of AWS, and the controller's own identity is shown to nobody else: "+
			"name a queue of AWS, or put accessKeyId and accessKeySecret into the Secret", queue)}
	}
	if r.rules == nil {
		return nil
	}
	if err := r.rules.Check(u); err != nil {
		return r.notAllowed("event queue "+queue, err)
	}
	return nil
}

// The forms of the names of hosts of AWS. A region's name ends in a number and has a dash: other
// names below these suffixes belong to customers (buckets, load balancers, ...).
const (
	regionForm = `[a-z]{2,5}(-[a-z]+)+-[0-9]+`
	suffixForm = `(amazonaws\.com(\.cn)?|amazonaws\.eu|api\.aws|api\.amazonwebservices\.(com\.cn|eu)|c2s\.ic\.gov|sc2s\.sgov\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov|` +
		`api\.aws\.ic\.gov|api\.aws\.scloud|api\.cloud-aws\.adc-e\.uk|api\.aws\.hci\.ic\.gov)`
)

var (
	serviceHost = regexp.MustCompile(`^((ec2|sts|sqs|rds|elasticache|elasticloadbalancing|elasticfilesystem|lambda|s3)(-fips)?\.` + regionForm + `|sts)\.` + suffixForm + `$`)
	queueHost   = regexp.MustCompile(`^(sqs(-fips)?\.` + regionForm + `|` + regionForm + `\.queue|queue|vpce-[0-9a-z-]+\.sqs\.` + regionForm + `\.vpce)\.` + suffixForm + `$`)
	cloudHost   = regexp.MustCompile(`\.` + suffixForm + `$`)
)

// headerBytes bounds the headers of an answer.
const headerBytes = 256 << 10

// newClient returns the client for requests that r has let pass. It follows no redirect, and
// connects to an endpoint that a range of addresses allows at such an address only.
func newClient(r reach, ambient *Ambient, timeout time.Duration, turn egress.Gate) *http.Client {
	builder := awshttp.NewBuildableClient()
	if ambient != nil {
		if own, ok := ambient.HTTPClient.(*awshttp.BuildableClient); ok {
			builder = own // with the certificates that the environment names
		}
	}
	open := builder.GetTransport()
	open.MaxResponseHeaderBytes = headerBytes
	open.DialContext = egress.GatedDial(open.DialContext, turn)
	t := transports{reach: r, open: open}
	if r.rules != nil {
		t.guarded = open.Clone()
		t.guarded.Proxy, t.guarded.DialContext = nil, egress.GatedDial(r.rules.Dial(builder.GetDialer()), turn)
	}
	return &http.Client{
		Transport: egress.Gated(t, turn), Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// transports sends requests to the account's endpoint with a look at the address that they go to,
// and all others as usual.
type transports struct {
	reach         reach
	open, guarded *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t transports) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.guarded == nil || !t.reach.isEndpoint(req.URL) || t.proxied(req) {
		return t.open.RoundTrip(req)
	}
	return t.guarded.RoundTrip(req)
}

// proxied reports whether the request goes to a host that the operator has named, by way of the
// operator's proxy. An endpoint that is given by its address is reached directly; otherwise only
// the proxy would check the address.
func (t transports) proxied(req *http.Request) bool {
	if !t.reach.rules.Names(req.URL) || t.open.Proxy == nil {
		return false
	}
	proxy, err := t.open.Proxy(req)
	return err == nil && proxy != nil
}
