package main

import (
	"context"
	"errors"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/bed"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
)

// sessions counts the SSH sessions of one run of a contestant.
type sessions struct {
	node   *bed.Node
	before int
}

// prepare runs a script on the machine, untimed, and looks how many sessions
// there were until now.
func (s *sessions) prepare(ctx context.Context, script string) error {
	_, err := s.node.Run(ctx, script)
	before, countErr := s.node.Sessions(ctx)
	s.before = before
	return errors.Join(err, countErr)
}

// check runs a script that fails when the machine is not as it should be, and
// answers the number of sessions since prepare.
func (s *sessions) check(ctx context.Context, script string) (contest.Counts, error) {
	after, countErr := s.node.Sessions(ctx)
	_, err := s.node.Run(ctx, script)
	return contest.Counts{"sessions": float64(after - s.before)}, errors.Join(err, countErr)
}
