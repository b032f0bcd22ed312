package store

import (
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// Quotas returns the effective quotas of an account.
func (w *Store) Quotas(account string) aws.Quotas {
	w.state.RLock()
	defer w.state.RUnlock()
	return w.quotas(account)
}

func (w *Store) quotas(account string) aws.Quotas {
	if a, ok := w.accounts[account]; ok {
		return a.Quotas.WithDefaults()
	}
	return aws.DefaultQuotas
}

// SetQuotas changes the quotas of an account. What exists already and exceeds them stays.
func (w *Store) SetQuotas(account string, q aws.Quotas) error {
	if err := q.Check(); err != nil {
		return err
	}
	return w.mutate(scope{account: account}, "SetQuotas", func(time.Time) ([]string, error) {
		a, ok := w.accounts[account]
		if !ok {
			return nil, aws.InvalidValue("there is no account %s", account)
		}
		a.Quotas = q
		return []string{account}, nil
	})
}
