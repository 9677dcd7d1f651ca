package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

func TestChoose(t *testing.T) {
	all := benchmarks()
	for pattern, want := range map[string][]string{
		"":            benchmarkNames(all),
		"^provision$": {"provision"},
		"agent|size":  {"agent", "size"},
	} {
		chosen, err := choose(all, pattern)
		require.NoError(t, err)
		assert.Equal(t, want, benchmarkNames(chosen), pattern)
	}
	_, err := choose(all, "nothing")
	require.ErrorContains(t, err, `no benchmark's name matches "nothing"; there are agent, provision,`)
	_, err = choose(all, "(")
	require.ErrorContains(t, err, "reading -run: ")
}

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "-1"}, {"besides"}, {"-unknown"}, {"-run", "nothing"}} {
		require.Error(t, run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}), args)
	}
}

// toy is a benchmark that remembers how often it was told to run.
func toy(name string, rounds int, told *[]int, goals ...report.Goal) benchmark {
	return benchmark{name: name, about: "a toy", rounds: rounds, run: func(_ context.Context, _ *bench, rounds int) (report.Section, error) {
		*told = append(*told, rounds)
		return report.Section{Goals: goals}, nil
	}}
}

func TestAll(t *testing.T) {
	b, err := newBench(&bytes.Buffer{})
	require.NoError(t, err)
	var told []int
	toys := []benchmark{
		toy("timed", 4, &told, report.NewGoal("of the time", 0.4, 0.5), report.NewGoal("of the rest", 0.6, 0.5)),
		toy("counted", 0, &told),
	}
	for rounds, want := range map[int][]int{0: {4, 0}, 7: {7, 0}} {
		told = nil
		var out bytes.Buffer
		d, err := b.all(t.Context(), toys, rounds, &out)
		require.NoError(t, err)
		assert.Equal(t, want, told)
		assert.Contains(t, out.String(), "timed: a toy\n")
		assert.Equal(t, []string{"timed", "counted"}, []string{d.Sections[0].Name, d.Sections[1].Name})
		assert.Equal(t, 20.0, d.RoundTripMS)

		out.Reset()
		printEnd(&out, d, "some.json")
		assert.Contains(t, out.String(), "1 of 2 goals met\n")
		assert.Contains(t, out.String(), "\nMISSED: 1\n")
		assert.Contains(t, out.String(), "every figure is in some.json\n")
		file := filepath.Join(t.TempDir(), "bench.json")
		require.NoError(t, d.Write(file))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.True(t, json.Valid(text))
	}
	require.NoError(t, b.close())
	assert.NoDirExists(t, b.folder)
}

func TestAllStopsAtAnError(t *testing.T) {
	b, err := newBench(&bytes.Buffer{})
	require.NoError(t, err)
	defer b.close()
	broken := errors.New("it broke")
	_, err = b.all(t.Context(), []benchmark{{name: "bad", run: func(context.Context, *bench, int) (report.Section, error) { return report.Section{}, broken }}}, 0, &bytes.Buffer{})
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "bad: it broke")
}
