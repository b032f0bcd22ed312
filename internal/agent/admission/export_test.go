package admission

import "context"

// NewAsking returns the queue whose callers share an answer if they ask at the same time.
func NewAsking(look func() error) (ask func(context.Context) error) {
	s := &asking{turn: make(chan struct{}, 1)}
	return func(ctx context.Context) error {
		_, err := s.ask(ctx, func(context.Context) (*moment, error) { return nil, look() })
		return err
	}
}
