package plan

// planning is one call of Compute.
type planning struct {
	*computation
	regions []*regionState
}

func newPlanning(in Input, lower Lowerer) *planning {
	p := &planning{computation: newComputation(in, lower)}
	for _, r := range p.computation.regions {
		p.regions = append(p.regions, newRegionState(r))
	}
	return p
}

// wanted is the computation of what is wanted in the end, whatever the way there.
func wanted(in Input, lower Lowerer) *planning {
	c := newPlanning(in, lower)
	for _, s := range c.regions {
		s.settle()
	}
	return c
}
