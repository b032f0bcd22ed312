package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// This file reads load balancers. Which ones there are, and which target groups, a few calls tell.
// Their listeners, targets and tags have to be asked for one by one, of which the cloud lets
// through ten a second: so new balancers are asked for first, and the others in turn.

const (
	// balancersOfTags is how many balancers one call tells the tags of; the cloud takes no more.
	balancersOfTags = 20
	// askedAgain is how many calls of each kind one reading makes about what is known already.
	askedAgain = 40
	// askedAtOnce is how many calls about single balancers are under way at a time.
	askedAtOnce = 8
	// askTime bounds these calls in one reading, so that no reading waits longer for ports and
	// targets. What is not asked then is asked first at the next reading.
	askTime = 5 * time.Second
)

const (
	balancersAPI   = "Elastic Load Balancing"
	targetsAPI     = "Elastic Load Balancing targets"
	balancersRight = "elasticloadbalancing:DescribeLoadBalancers (with DescribeListeners and DescribeTags)"
	targetsRight   = "elasticloadbalancing:DescribeTargetGroups (with DescribeTargetHealth and DescribeTargetGroupAttributes)"
)

// balancerBook is what calls about single balancers of a region have said.
type balancerBook struct {
	mu        sync.Mutex
	tags      turns[map[string]string]
	listeners turns[[]listener]
	targets   turns[[]cloud.Target]
	preserves turns[bool]
	// groups are the target groups, as they were when they could last be read.
	groups map[string]elbtypes.TargetGroup
}

// turns keeps answers about single objects, by their ids, and whose turn it is to be asked again.
type turns[T any] struct {
	said map[string]*answered[T]
	n    int
}

type answered[T any] struct {
	value T
	turn  int
}

// next returns the ids to ask about: all that were not asked yet, in the order given, then the ones
// that were asked longest ago, at most again of these. An id that is not given any more is
// forgotten.
func (t *turns[T]) next(ids []string, again int) []string {
	kept := map[string]*answered[T]{}
	var out, known []string
	for _, id := range ids {
		if a := t.said[id]; a != nil {
			kept[id], known = a, append(known, id)
		} else {
			out = append(out, id)
		}
	}
	t.said = kept
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(kept[a].turn, kept[b].turn) })
	return append(out, known[:min(again, len(known))]...)
}

// put keeps an answer.
func (t *turns[T]) put(id string, value T) {
	if t.said == nil {
		t.said = map[string]*answered[T]{}
	}
	t.n++
	t.said[id] = &answered[T]{value, t.n}
}

// get returns the last answer; false if there is none.
func (t *turns[T]) get(id string) (out T, known bool) {
	if a := t.said[id]; a != nil {
		return a.value, true
	}
	return out, false
}

// listener is a listener of a balancer.
type listener struct {
	protocol elbtypes.ProtocolEnum
	port     int32
	// groups are the ARNs of the target groups of its default actions.
	groups []string
}

// question is a call about a single balancer or target group, or about a few.
type question struct {
	call string
	ids  []string
	// targets is true for one about targets.
	targets bool
	ask     func(ctx context.Context, ids []string) error
}

func (r *serviceReader) balancers(ctx context.Context) error {
	api := elb.NewFromConfig(r.conn.Base, func(o *elb.Options) { o.Region = r.conn.Region })
	if err := r.listBalancers(ctx, api); err != nil {
		return err
	}
	groups, unread := r.listTargetGroups(ctx, api)
	r.book.balancers.mu.Lock()
	defer r.book.balancers.mu.Unlock()
	if unread != nil {
		groups = r.book.balancers.groups
	}
	r.book.balancers.groups = groups
	failed, untold := r.askAll(ctx, r.questions(api, groups))
	if failed != nil {
		return failed
	}
	if unread = cmp.Or(unread, untold); unread != nil {
		r.faults = append(r.faults, cloud.ServiceFault{API: targetsAPI, Right: targetsRight, Err: unread})
	}
	return r.equip(groups)
}

// listBalancers finds the balancers that there are.
func (r *serviceReader) listBalancers(ctx context.Context, api *elb.Client) error {
	kinds := map[elbtypes.LoadBalancerTypeEnum]cloud.ServiceKind{
		elbtypes.LoadBalancerTypeEnumApplication: cloud.ApplicationLoadBalancer, elbtypes.LoadBalancerTypeEnumNetwork: cloud.NetworkLoadBalancer,
		elbtypes.LoadBalancerTypeEnumGateway: cloud.GatewayLoadBalancer,
	}
	return r.paged("DescribeLoadBalancers", func(mark *string) (*string, error) {
		out, err := api.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{Marker: mark})
		if err != nil {
			return nil, err
		}
		for _, x := range out.LoadBalancers {
			kind, known := kinds[x.Type]
			if !known {
				continue
			}
			d := description{Service: cloud.Service{
				ID: awssdk.ToString(x.LoadBalancerArn), Kind: kind, Name: awssdk.ToString(x.LoadBalancerName), NetworkID: awssdk.ToString(x.VpcId),
				DNSName: awssdk.ToString(x.DNSName), GroupIDs: slices.Clone(x.SecurityGroups),
			}}
			if len(d.GroupIDs) == 0 {
				d.Fixed = "it was made without security groups, and can never have any"
			}
			if err := r.add(d); err != nil {
				return nil, err
			}
		}
		return out.NextMarker, nil
	})
}

// listTargetGroups returns the target groups that balancers hand traffic to, by their ARNs.
func (r *serviceReader) listTargetGroups(ctx context.Context, api *elb.Client) (map[string]elbtypes.TargetGroup, error) {
	groups := map[string]elbtypes.TargetGroup{}
	bound := r.conn.Bounds.Objects
	err := r.paged("DescribeTargetGroups", func(mark *string) (*string, error) {
		out, err := api.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{Marker: mark})
		if err != nil {
			return nil, err
		}
		for _, g := range out.TargetGroups {
			if len(g.LoadBalancerArns) > 0 {
				groups[awssdk.ToString(g.TargetGroupArn)] = g
			}
		}
		if len(groups) > bound {
			return nil, &cloud.BoundError{What: "the account has", Bound: int64(bound), Unit: "target groups", Flag: bounds.FlagObjects}
		}
		return out.NextMarker, nil
	})
	return groups, err
}

// questions are what is to be asked in this reading, in order: what objects are selected by comes
// before their ports, and these before targets.
func (r *serviceReader) questions(api *elb.Client, groups map[string]elbtypes.TargetGroup) []question {
	var balancers, targets, preserving []string
	for i := range r.found {
		balancers = append(balancers, r.found[i].ID)
	}
	for id, g := range groups {
		if g.TargetType != elbtypes.TargetTypeEnumLambda {
			targets = append(targets, id)
		}
		if overNetwork(&g) {
			preserving = append(preserving, id)
		}
	}
	slices.Sort(targets)
	slices.Sort(preserving)
	var out []question
	single := func(call string, ids []string, targets bool, ask func(ctx context.Context, ids []string) error) {
		for _, id := range ids {
			out = append(out, question{call, []string{id}, targets, ask})
		}
	}
	for chunk := range slices.Chunk(r.book.balancers.tags.next(balancers, askedAgain*balancersOfTags), balancersOfTags) {
		out = append(out, question{"DescribeTags", chunk, false, func(ctx context.Context, ids []string) error { return r.askTags(ctx, api, ids) }})
	}
	single("DescribeListeners", r.book.balancers.listeners.next(balancers, askedAgain), false, func(ctx context.Context, ids []string) error { return r.askListeners(ctx, api, ids[0]) })
	single("DescribeTargetGroupAttributes", r.book.balancers.preserves.next(preserving, askedAgain), true, func(ctx context.Context, ids []string) error { return r.askAttributes(ctx, api, ids[0]) })
	single("DescribeTargetHealth", r.book.balancers.targets.next(targets, askedAgain), true, func(ctx context.Context, ids []string) error { return r.askTargets(ctx, api, ids[0]) })
	return out
}

// overNetwork reports whether a target group is one of network load balancers, which may preserve
// the addresses of clients.
func overNetwork(g *elbtypes.TargetGroup) bool {
	switch g.Protocol {
	case elbtypes.ProtocolEnumTcp, elbtypes.ProtocolEnumTls, elbtypes.ProtocolEnumUdp, elbtypes.ProtocolEnumTcpUdp:
		return true
	}
	return false
}

// askAll asks, several at a time, as long as there is time. Failed is an error of a call about
// balancers, and untold one about targets: no further call of its name is made then.
func (r *serviceReader) askAll(ctx context.Context, questions []question) (failed, untold error) {
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, stopped := 0, map[string]bool{}
	take := func() *question {
		mu.Lock()
		defer mu.Unlock()
		for next < len(questions) && bounded.Err() == nil && failed == nil {
			q := &questions[next]
			next++
			if !stopped[q.call] {
				return q
			}
		}
		return nil
	}
	for range min(askedAtOnce, len(questions)) {
		wg.Go(func() {
			for q := take(); q != nil; q = take() {
				err := recovered.Call(func() error { return q.ask(bounded, q.ids) })
				switch {
				case err == nil, bounded.Err() != nil && ctx.Err() == nil, gone(err):
					continue
				}
				err = r.conn.classify(q.call, err)
				mu.Lock()
				stopped[q.call] = true
				if q.targets {
					untold = cmp.Or(untold, err)
				} else {
					failed = cmp.Or(failed, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed, untold
}

// gone reports whether what was asked about was deleted in the meantime.
func gone(err error) bool {
	var balancer *elbtypes.LoadBalancerNotFoundException
	var group *elbtypes.TargetGroupNotFoundException
	return errors.As(err, &balancer) || errors.As(err, &group)
}

func (r *serviceReader) askTags(ctx context.Context, api *elb.Client, ids []string) error {
	out, err := api.DescribeTags(ctx, &elb.DescribeTagsInput{ResourceArns: ids})
	if err != nil {
		return err
	}
	r.answers.Lock()
	defer r.answers.Unlock()
	for _, of := range out.TagDescriptions {
		var d description
		for _, t := range of.Tags {
			d.tag(t.Key, t.Value)
		}
		r.book.balancers.tags.put(awssdk.ToString(of.ResourceArn), d.Tags)
	}
	return nil
}

func (r *serviceReader) askListeners(ctx context.Context, api *elb.Client, id string) error {
	var found []listener
	err := r.paged("DescribeListeners", func(mark *string) (*string, error) {
		out, err := api.DescribeListeners(ctx, &elb.DescribeListenersInput{LoadBalancerArn: &id, Marker: mark})
		if err != nil {
			return nil, err
		}
		for _, x := range out.Listeners {
			found = append(found, listener{x.Protocol, awssdk.ToInt32(x.Port), forwarded(x.DefaultActions)})
		}
		return out.NextMarker, nil
	})
	if err != nil {
		return err
	}
	r.answers.Lock()
	defer r.answers.Unlock()
	r.book.balancers.listeners.put(id, found)
	return nil
}

// forwarded are the target groups of actions.
func forwarded(actions []elbtypes.Action) []string {
	var out []string
	for _, a := range actions {
		if a.TargetGroupArn != nil {
			out = append(out, *a.TargetGroupArn)
		}
		if a.ForwardConfig == nil {
			continue
		}
		for _, g := range a.ForwardConfig.TargetGroups {
			out = append(out, awssdk.ToString(g.TargetGroupArn))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *serviceReader) askTargets(ctx context.Context, api *elb.Client, id string) error {
	out, err := api.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &id})
	if err != nil {
		return err
	}
	found := []cloud.Target{}
	for _, x := range out.TargetHealthDescriptions {
		if x.Target == nil {
			continue
		}
		t := cloud.Target{Port: uint16(awssdk.ToInt32(x.Target.Port))}
		if port, err := strconv.ParseUint(awssdk.ToString(x.HealthCheckPort), 10, 16); err == nil {
			t.HealthPort = uint16(port)
		}
		switch target := awssdk.ToString(x.Target.Id); {
		case strings.HasPrefix(target, "i-"):
			t.VMID = target
		case strings.HasPrefix(target, "arn:"):
			t.ServiceID = target
		default:
			if t.Addr, err = netip.ParseAddr(target); err != nil {
				continue
			}
		}
		found = append(found, t)
	}
	slices.SortFunc(found, cloud.Target.Compare)
	r.answers.Lock()
	defer r.answers.Unlock()
	r.book.balancers.targets.put(id, found)
	return nil
}

func (r *serviceReader) askAttributes(ctx context.Context, api *elb.Client, id string) error {
	out, err := api.DescribeTargetGroupAttributes(ctx, &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: &id})
	if err != nil {
		return err
	}
	preserved := false
	for _, a := range out.Attributes {
		if awssdk.ToString(a.Key) == "preserve_client_ip.enabled" {
			preserved = awssdk.ToString(a.Value) == "true"
		}
	}
	r.answers.Lock()
	defer r.answers.Unlock()
	r.book.balancers.preserves.put(id, preserved)
	return nil
}

// equip gives the balancers their tags, ports and listeners, as far as they are known.
func (r *serviceReader) equip(groups map[string]elbtypes.TargetGroup) error {
	attached := map[string][]string{} // by balancer
	for id, g := range groups {
		for _, balancer := range g.LoadBalancerArns {
			attached[balancer] = append(attached[balancer], id)
		}
	}
	known := map[string]cloud.TargetGroup{}
	n, bound := 0, r.conn.Bounds.Objects
	for i := range r.found {
		d := &r.found[i]
		var told bool
		if d.Tags, told = r.book.balancers.tags.get(d.ID); !told {
			d.unknown()
		}
		listeners, asked := r.book.balancers.listeners.get(d.ID)
		if !asked {
			continue
		}
		d.listensAll(listeners)
		// Which listener's rules lead to a group that is in no default action is not asked.
		ruled := slices.DeleteFunc(attached[d.ID], func(id string) bool {
			return slices.ContainsFunc(listeners, func(l listener) bool { return slices.Contains(l.groups, id) })
		})
		d.Listeners = []cloud.ServiceListener{}
		for _, l := range listeners {
			for _, protocol := range protocolsOf(l.protocol) {
				out := cloud.ServiceListener{Protocol: protocol, Port: uint16(l.port)}
				for _, id := range slices.Sorted(slices.Values(slices.Concat(l.groups, ruled))) {
					key := string(d.Kind) + " " + id
					if _, made := known[key]; !made {
						known[key] = r.targetGroup(d.Kind, id, groups)
					}
					out.Groups = append(out.Groups, known[key])
					if n += 1 + len(known[key].Targets); n > bound {
						return &cloud.BoundError{What: "the load balancers have", Bound: int64(bound), Unit: "targets", Flag: bounds.FlagObjects}
					}
				}
				d.Listeners = append(d.Listeners, out)
			}
		}
		slices.SortFunc(d.Listeners, func(a, b cloud.ServiceListener) int {
			return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
		})
	}
	return nil
}

// targetGroup is a target group as far as it is known.
func (r *serviceReader) targetGroup(balancer cloud.ServiceKind, id string, groups map[string]elbtypes.TargetGroup) cloud.TargetGroup {
	out := cloud.TargetGroup{ID: id}
	if parts := strings.Split(id, "/"); len(parts) > 1 {
		out.Name = parts[1]
	}
	g, listed := groups[id]
	if listed {
		out.Name, out.NetworkID = awssdk.ToString(g.TargetGroupName), awssdk.ToString(g.VpcId)
	}
	if listed && g.TargetType == elbtypes.TargetTypeEnumLambda {
		out.Unknown = "it is a function, which is called and gets no packets"
		return out
	}
	targets, told := r.book.balancers.targets.get(id)
	preserved, asked := r.book.balancers.preserves.get(id)
	if !listed || !told || overNetwork(&g) && !asked {
		out.Unknown = "its targets were not read"
		return out
	}
	out.Targets, out.Preserved = targets, preserved || balancer == cloud.GatewayLoadBalancer
	if g.HealthCheckEnabled != nil && !*g.HealthCheckEnabled {
		out.Targets = slices.Clone(targets)
		for i := range out.Targets {
			out.Targets[i].HealthPort = 0
		}
	}
	return out
}

// listensAll gives a balancer its ports. Each has a name with its number; one without is that of
// the only one of its protocol.
func (d *description) listensAll(listeners []listener) {
	only := map[string]cloud.ServicePort{}
	count := map[string]int{}
	for _, l := range listeners {
		name := strings.ReplaceAll(strings.ToLower(string(l.protocol)), "_", "-")
		for _, protocol := range protocolsOf(l.protocol) {
			if d.listens(fmt.Sprintf("%s-%d", name, l.port), protocol, l.port) {
				count[name]++
				only[name] = d.Ports[len(d.Ports)-1]
			}
			name = "udp" // beside TCP
		}
	}
	for name, p := range only {
		if count[name] == 1 {
			d.listens(name, p.Protocol, int32(p.Port))
		}
	}
	slices.SortFunc(d.Ports, func(a, b cloud.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Name, b.Name))
	})
}

// protocolsOf are those that a listener takes; none if it has no port.
func protocolsOf(p elbtypes.ProtocolEnum) []int {
	switch p {
	case elbtypes.ProtocolEnumUdp:
		return []int{cloud.UDP}
	case elbtypes.ProtocolEnumTcpUdp:
		return []int{cloud.TCP, cloud.UDP}
	case elbtypes.ProtocolEnumGeneve:
		return nil
	}
	return []int{cloud.TCP}
}
