//go:build linux

package remote

import (
	"net"
	"testing"

	"github.com/hashicorp/packer-plugin-sdk/communicator"
	"github.com/hashicorp/packer-plugin-sdk/multistep"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/hashicorp/packer-plugin-sdk/rpc"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plugin/sshtest"
)

// connect creates the communicator that a builder would create, and passes it to
// the plugin through RPC, as Packer does.
func connect(t *testing.T, c communicator.Config, ui packersdk.Ui) packersdk.Communicator {
	require.Empty(t, c.Prepare(&interpolate.Context{}))
	state := new(multistep.BasicStateBag)
	state.Put("ui", ui)
	step := &communicator.StepConnect{
		Config:    &c,
		Host:      func(multistep.StateBag) (string, error) { return c.SSHHost, nil },
		SSHConfig: c.SSHConfigFunc(),
	}
	action := step.Run(t.Context(), state)
	require.Equal(t, multistep.ActionContinue, action, "%v", state.Get("error"))
	return throughPacker(t, state.Get("communicator").(packersdk.Communicator))
}

func throughPacker(t *testing.T, comm packersdk.Communicator) packersdk.Communicator {
	core, plugin := net.Pipe()
	server, err := rpc.NewServer(core)
	require.NoError(t, err)
	require.NoError(t, server.RegisterCommunicator(comm))
	go server.Serve()
	client, err := rpc.NewClient(plugin)
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
	})
	return client.Communicator()
}

// connectSSH connects to the machine.
func connectSSH(t *testing.T, m *sshtest.Machine, ui packersdk.Ui) packersdk.Communicator {
	c := communicator.Config{Type: "ssh"}
	c.SSHHost, c.SSHPort = m.Address()
	c.SSHUsername, c.SSHPassword = "admin", "secret"
	return connect(t, c, ui)
}
