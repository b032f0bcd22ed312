package sim

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/native"
)

// This file holds the admin endpoints about native services.

// adminServices adds them: what there is, where a host name leads, how a flow passes a balancer; a
// failover, and a balancer that gets more or fewer interfaces.
func (o operator) adminServices(handle func(pattern string, f func(*http.Request) (any, error))) {
	handle("GET /_sim/services", o.getServices)
	handle("GET /_sim/lookup", func(r *http.Request) (any, error) { return o.s.world.LookUp(r.FormValue("host")), nil })
	handle("GET /_sim/through", o.getThrough)
	handle("POST /_sim/failover", o.postFailover)
	handle("POST /_sim/scale", o.postScale)
}

func (o operator) getServices(r *http.Request) (any, error) {
	region, err := o.region(r.FormValue("account"), r.FormValue("region"))
	if err != nil {
		return nil, err
	}
	kinds := native.Kinds()
	if k := r.FormValue("kind"); k != "" {
		kinds = []native.Kind{native.Kind(k)}
	}
	return region.Services().List(kinds...), nil
}

// serviceRef finds a service by kind and name; a balancer also by the name that people gave it.
func (o operator) serviceRef(r *http.Request) (native.Ref, error) {
	ref := native.Ref{Kind: native.Kind(r.FormValue("kind")), Name: r.FormValue("name")}
	if ref.Kind == "" || ref.Name == "" {
		return ref, badf("expected kind and name of a service")
	}
	if ref.Kind.Balances() && !strings.Contains(ref.Name, "/") {
		region, err := o.region(r.FormValue("account"), r.FormValue("region"))
		if err != nil {
			return ref, err
		}
		for _, x := range region.Services().List(ref.Kind) {
			if x.Display() == ref.Name {
				ref.Name = x.Name
			}
		}
	}
	return ref, nil
}

func (o operator) postFailover(r *http.Request) (any, error) {
	ref, err := o.serviceRef(r)
	if err != nil {
		return nil, err
	}
	region, err := o.region(r.FormValue("account"), r.FormValue("region"))
	if err != nil {
		return nil, err
	}
	return region.Services().Failover(ref)
}

// postScale: interfaces is how many the balancer shall have in each subnet.
func (o operator) postScale(r *http.Request) (any, error) {
	ref, err := o.serviceRef(r)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(r.FormValue("interfaces"))
	if err != nil {
		return nil, badf("interfaces is %q, expected how many in each subnet", r.FormValue("interfaces"))
	}
	region, err := o.region(r.FormValue("account"), r.FormValue("region"))
	if err != nil {
		return nil, err
	}
	return region.Services().Scale(ref, n)
}

// getThrough takes the parameters of allowed.
func (o operator) getThrough(r *http.Request) (any, error) {
	flow, err := o.flow(r)
	if err != nil {
		return nil, err
	}
	passage, ok, err := o.s.world.Through(flow)
	if err != nil {
		return nil, badRequest{err}
	}
	if !ok {
		return nil, badf("%s is not to the front end of a balancer that listens for it", flow)
	}
	return passage, nil
}
