package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/packer-plugin-sdk/communicator"
	"github.com/hashicorp/packer-plugin-sdk/multistep"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/hashicorp/packer-plugin-sdk/rpc"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"
)

// communicate connects as a builder does, with every setting as it is when a
// template says nothing, and hands the communicator over as Packer does to
// provisioners, which are other processes: through its RPC. end closes it.
func communicate(ctx context.Context, address, user string, key []byte) (comm packersdk.Communicator, end func() error, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting Packer's communicator: %w", err)
	}
	c := communicator.Config{Type: "ssh"}
	c.SSHHost, c.SSHUsername, c.SSHPrivateKey = host, user, key
	c.SSHPort, err = strconv.Atoi(port)
	c.SSHTimeout = time.Minute
	if err := errors.Join(append(c.Prepare(&interpolate.Context{}), err)...); err != nil {
		return nil, nil, fmt.Errorf("connecting Packer's communicator: %w", err)
	}
	state := new(multistep.BasicStateBag)
	state.Put("ui", Screen(io.Discard))
	step := &communicator.StepConnect{
		Config: &c, SSHConfig: c.SSHConfigFunc(),
		Host: func(multistep.StateBag) (string, error) { return c.SSHHost, nil },
	}
	if step.Run(ctx, state) != multistep.ActionContinue {
		return nil, nil, fmt.Errorf("connecting Packer's communicator: %v", state.Get("error"))
	}
	comm, err = overRPC(state.Get("communicator").(packersdk.Communicator))
	if err != nil {
		return nil, nil, err
	}
	return comm, func() error { step.Cleanup(state); return nil }, nil
}

func overRPC(comm packersdk.Communicator) (packersdk.Communicator, error) {
	core, plugin := net.Pipe()
	server, err := rpc.NewServer(core)
	if err == nil {
		err = server.RegisterCommunicator(comm)
	}
	if err != nil {
		return nil, fmt.Errorf("connecting with Packer's RPC: %w", err)
	}
	go server.Serve()
	client, err := rpc.NewClient(plugin)
	if err != nil {
		return nil, fmt.Errorf("connecting with Packer's RPC: %w", err)
	}
	return client.Communicator(), nil
}
