// Package nativeapi knows the actions of the APIs of native services: RDS, ElastiCache and Elastic
// Load Balancing in the query protocol, EFS and Lambda as REST with JSON. An action takes a Call
// that somebody has authenticated, runs it on the world and returns what is to be answered; it
// knows no HTTP. The Permissions of a Call are what IAM must allow for it.
//
// What the actions take, answer and refuse is as the API references of the services tell it, as far
// as taking an inventory and setting security groups needs it. Package functions hold no state and
// may be called concurrently; a Call belongs to one goroutine.
package nativeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// The services, as the credential scope of a signature names them.
const (
	RDS         = "rds"
	ElastiCache = "elasticache"
	ELB         = "elasticloadbalancing"
	EFS         = "elasticfilesystem"
	Lambda      = "lambda"
)

// Call is one authenticated call.
type Call struct {
	Service, Action string
	Params          wire.Params // of the query, the form or the path
	Body            []byte      // the JSON body of a REST call
	Keys            []string    // the query parameters tagKeys of a REST call
	Region          *world.Region
	Now             time.Time
}

// Answer is what a call is answered with: XML elements, or a value to encode as JSON.
type Answer struct {
	XML  []wire.Element
	JSON any // nil: there is no content
}

// Action runs a call. Its errors are *aws.Error with the codes of the service, or errors
// of package wire.
type Action func(*Call) (Answer, error)

// Services lists the services.
func Services() []string { return []string{RDS, ElastiCache, ELB, EFS, Lambda} }

// Actions names the actions of a service.
func Actions(service string) map[string]Action {
	switch service {
	case RDS:
		return rdsActions()
	case ElastiCache:
		return cacheActions()
	case ELB:
		return balancerActions()
	case EFS:
		return fileActions()
	case Lambda:
		return functionActions()
	}
	return nil
}

// IsREST reports whether a service speaks REST with JSON; the others speak the query protocol.
func IsREST(service string) bool { return service == EFS || service == Lambda }

// Namespace is the XML namespace of a service's answers.
func Namespace(service string) string {
	switch service {
	case RDS:
		return "http://rds.amazonaws.com/doc/2014-10-31/"
	case ElastiCache:
		return "http://elasticache.amazonaws.com/doc/2015-02-02/"
	}
	return "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/"
}

// ServiceOfVersion is the service that an API version of the query protocol belongs to, or "".
func ServiceOfVersion(version string) string {
	return map[string]string{"2014-10-31": RDS, "2015-02-02": ElastiCache, "2015-12-01": ELB}[version]
}

// Throttled is the refusal of a call beyond the rate.
func Throttled(service string) *aws.Error {
	switch service {
	case EFS:
		return &aws.Error{Code: "ThrottlingException", Message: "Rate exceeded", HTTPStatus: http.StatusTooManyRequests}
	case Lambda:
		return &aws.Error{Code: "TooManyRequestsException", Message: "Rate exceeded", HTTPStatus: http.StatusTooManyRequests}
	}
	return refuse("Throttling", "Rate exceeded")
}

// route is one REST action: method and path, in which {Name} is a parameter.
type route struct{ service, method, path, action string }

// routes holds the routes of the EFS and Lambda API references. It is never written to.
var routes = []route{
	{EFS, http.MethodGet, "/2015-02-01/file-systems", "DescribeFileSystems"},
	{EFS, http.MethodGet, "/2015-02-01/mount-targets", "DescribeMountTargets"},
	{EFS, http.MethodGet, "/2015-02-01/mount-targets/{MountTargetId}/security-groups", "DescribeMountTargetSecurityGroups"},
	{EFS, http.MethodPut, "/2015-02-01/mount-targets/{MountTargetId}/security-groups", "ModifyMountTargetSecurityGroups"},
	{EFS, http.MethodGet, "/2015-02-01/resource-tags/{ResourceId}", "ListTagsForResource"},
	{EFS, http.MethodPost, "/2015-02-01/resource-tags/{ResourceId}", "TagResource"},
	{EFS, http.MethodDelete, "/2015-02-01/resource-tags/{ResourceId}", "UntagResource"},
	{Lambda, http.MethodGet, "/2015-03-31/functions", "ListFunctions"},
	{Lambda, http.MethodGet, "/2015-03-31/functions/{FunctionName}/configuration", "GetFunctionConfiguration"},
	{Lambda, http.MethodPut, "/2015-03-31/functions/{FunctionName}/configuration", "UpdateFunctionConfiguration"},
	{Lambda, http.MethodGet, "/2017-03-31/tags/{Resource}", "ListTags"},
	{Lambda, http.MethodPost, "/2017-03-31/tags/{Resource}", "TagResource"},
	{Lambda, http.MethodDelete, "/2017-03-31/tags/{Resource}", "UntagResource"},
}

// Prefixes are the beginnings of all REST paths.
func Prefixes() []string { return []string{"/2015-02-01/", "/2015-03-31/", "/2017-03-31/"} }

// Route finds the service and the action of a REST request, with the parameters of path and query.
// An unknown path of a service gives the service and no action.
func Route(method string, u *url.URL) (service, action string, params url.Values) {
	params = u.Query()
	parts := strings.Split(strings.TrimSuffix(u.EscapedPath(), "/"), "/")
	for _, r := range routes {
		if strings.HasPrefix(u.Path, r.path[:len("/2015-02-01/")]) {
			service = r.service
		}
		if r.method != method {
			continue
		}
		if found, ok := r.match(parts); ok {
			maps.Copy(params, found)
			return r.service, r.action, params
		}
	}
	return service, "", params
}

func (r route) match(parts []string) (url.Values, bool) {
	pattern := strings.Split(r.path, "/")
	if len(pattern) != len(parts) {
		return nil, false
	}
	out := url.Values{}
	for i, p := range pattern {
		name, variable := strings.CutPrefix(p, "{")
		value, err := url.PathUnescape(parts[i])
		switch {
		case err != nil || !variable && value != p || variable && value == "":
			return nil, false
		case variable:
			out.Set(strings.TrimSuffix(name, "}"), value)
		}
	}
	return out, true
}

// Permissions lists what the call needs; a service's actions carry its name in IAM.
func (c *Call) Permissions() []iam.Request {
	switch c.Service {
	case RDS:
		return c.rdsPermissions()
	case ElastiCache:
		return c.cachePermissions()
	case ELB:
		return c.balancerPermissions()
	case EFS:
		return c.filePermissions()
	}
	return c.functionPermissions()
}

// ask is the permission for the call on a resource, with the tags that it has and those that the
// call sets.
func (c *Call) ask(resource string, has, sets map[string]string) iam.Request {
	keys := map[string][]string{"aws:RequestedRegion": {c.Region.Name()}}
	for k, v := range has {
		keys["aws:ResourceTag/"+k] = []string{v}
	}
	for k, v := range sets {
		keys["aws:RequestTag/"+k] = []string{v}
	}
	if sets != nil {
		keys["aws:TagKeys"] = slices.Sorted(maps.Keys(sets))
	}
	return iam.Request{Action: c.Service + ":" + c.Action, Resource: resource, Keys: keys}
}

// askFor is ask for a service by kind and name; an empty name asks for all of the kind.
func (c *Call) askFor(k native.Kind, name string, sets map[string]string) iam.Request {
	if name == "" {
		return c.ask(native.ARN(k, c.Region.Name(), c.Region.Account(), "*"), nil, sets)
	}
	// A service that is not there has no tags.
	s, _ := c.Region.Services().Get(native.Ref{Kind: k, Name: name})
	return c.ask(native.ARN(k, c.Region.Name(), c.Region.Account(), name), s.Tags, sets)
}

// byARN finds the service of one of the kinds that an ARN names.
func (c *Call) byARN(arn string, kinds ...native.Kind) (native.Service, bool) {
	for _, s := range c.Region.Services().List(kinds...) {
		if s.ARN() == arn {
			return s, true
		}
	}
	return native.Service{}, false
}

// zones returns the zones of the subnets that the account sees, by subnet.
func (c *Call) zones() (map[string]aws.Zone, error) {
	subnets, err := c.Region.Subnets()
	out := map[string]aws.Zone{}
	for i := range subnets {
		out[subnets[i].ID] = subnets[i].Zone
	}
	return out, err
}

// interfaces returns the interfaces of services, by id.
func (c *Call) interfaces() (map[string]aws.NetworkInterface, error) {
	all, err := c.Region.NetworkInterfaces()
	out := map[string]aws.NetworkInterface{}
	for i := range all {
		out[all[i].ID] = all[i]
	}
	return out, err
}

func (c *Call) busy(s native.Service) bool { return c.Now.Before(s.Busy) }

// paging are the names and bounds of a service's parameters for pages.
type paging struct {
	marker, size    string
	min, max, whole int
}

// page cuts a page out of a list. bad is the refusal of a size or marker that is none.
func page[T any](c *Call, all []T, key func(T) string, p paging, bad func(format string, args ...any) error) (wire.Page[T], error) {
	size, given, err := c.Params.Int(p.size)
	if err != nil || given && (size < p.min || size > p.max) {
		return wire.Page[T]{}, bad("Invalid value %s for %s. Must be between %d and %d", c.Params.String(p.size), p.size, p.min, p.max)
	}
	if !given {
		size = p.whole
	}
	cut, err := wire.Cut(all, key, wire.Paging{
		Request: wire.Fingerprint(c.Params, c.Region.Account(), c.Region.Name()), Token: c.Params.String(p.marker), Size: size,
	})
	if errors.Is(err, wire.ErrToken) {
		return cut, bad("The parameter %s has a value that no answer gave: %s", p.marker, c.Params.String(p.marker))
	}
	return cut, err
}

// list writes values as a list of elements named item, as the query protocol does it.
func list[T any](name, item string, values []T, body func(T) []wire.Element) wire.Element {
	out := wire.Element{Name: name}
	for _, v := range values {
		out.Children = append(out.Children, wire.Node(item, body(v)...))
	}
	return out
}

// texts writes a list of texts.
func texts(name, item string, values []string) wire.Element {
	out := wire.Element{Name: name}
	for _, v := range values {
		out.Children = append(out.Children, wire.Element{Name: item, Text: v})
	}
	return out
}

// tagList writes tags as elements named item.
func tagList(name, item string, tags map[string]string) wire.Element {
	return list(name, item, slices.Sorted(maps.Keys(tags)), func(k string) []wire.Element {
		return []wire.Element{wire.Text("Key", k), {Name: "Value", Text: tags[k]}}
	})
}

// requestTags reads a list of tags of the query protocol.
func requestTags(p wire.Params, list string) map[string]string {
	out := map[string]string{}
	for _, t := range p.Elements(list) {
		out[t.String("Key")] = t.String("Value")
	}
	return out
}

// namedTags are the tags that a call of the query protocol sets or, without values, removes, as IAM
// knows them.
func namedTags(p wire.Params, list string) map[string]string {
	out := requestTags(p, list)
	for _, k := range p.Strings("TagKeys.member") {
		out[k] = ""
	}
	return out
}

// tagKeys are the keys that a REST call removes.
func (c *Call) tagKeys() []string {
	c.Params.String("tagKeys") // the same, of which Params has one
	return c.Keys
}

// immediately reads the parameter by which a change may wait for the maintenance window. Security
// groups never do.
func (c *Call) immediately() error {
	_, _, err := c.Params.Bool("ApplyImmediately")
	return err
}

// decode reads the JSON body of a REST call.
func (c *Call) decode(into any) error {
	if len(c.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.Body, into); err != nil {
		return refuse("SerializationException", "the body is not of the form that %s takes", c.Action)
	}
	return nil
}

func refuse(code, format string, args ...any) *aws.Error {
	return &aws.Error{Code: code, Message: fmt.Sprintf(format, args...), HTTPStatus: http.StatusBadRequest}
}

func withStatus(status int, code, format string, args ...any) *aws.Error {
	e := refuse(code, format, args...)
	e.HTTPStatus = status
	return e
}

// translate gives a refusal of the world the name that a service has for it, and its HTTP status if
// that stands behind a slash. Codes that are in no row stay.
func translate(err error, names map[string]string) error {
	e := (*aws.Error)(nil)
	if !errors.As(err, &e) || names[e.Code] == "" {
		return err
	}
	code, status, _ := strings.Cut(names[e.Code], "/")
	out := *refuse(code, "%s", e.Message)
	if n, err := strconv.Atoi(status); err == nil {
		out.HTTPStatus = n
	}
	return &out
}
