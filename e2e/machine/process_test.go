package machine

import (
	"context"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProcess(t *testing.T) {
	process, err := spawn(exec.Command("sleep", "600"))
	require.NoError(t, err)
	assert.True(t, process.running())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, process.wait(ended), context.Canceled)
	group, err := syscall.Getpgid(process.pid())
	require.NoError(t, err)
	assert.Equal(t, process.pid(), group, "a Ctrl-C would reach it")

	require.NoError(t, process.kill())
	assert.False(t, process.running())
	assert.EqualError(t, process.exit(), "signal: killed")
	assert.NoError(t, process.wait(t.Context()))
	assert.NoError(t, process.signal(syscall.SIGTERM), "it has ended")
	assert.NoError(t, process.kill())
}

func TestProcessThatEnds(t *testing.T) {
	process, err := spawn(exec.Command("true"))
	require.NoError(t, err)
	require.NoError(t, process.wait(t.Context()))
	assert.EqualError(t, process.exit(), "exit status 0")
}

func TestProcessThatIsNotThere(t *testing.T) {
	_, err := spawn(exec.Command("/no/such/program"))
	assert.ErrorContains(t, err, "starting /no/such/program: ")
	var none *process
	assert.NoError(t, none.kill())
}
