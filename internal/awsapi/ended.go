package awsapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// EndedError says that an instance has ended, and EC2 no longer has its settings.
type EndedError struct {
	Doing string
	// State is terminated or shutting-down. Reason may be empty.
	State, Reason string
}

func (e *EndedError) Error() string {
	text := fmt.Sprintf("%s: the instance is %s, and EC2 no longer has its settings", e.Doing, e.State)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// ended returns an error for an instance that has lost its network and role.
func ended(doing string, in types.Instance) error {
	state, reason := stateOf(in)
	if !slices.Contains([]string{string(types.InstanceStateNameShuttingDown), string(types.InstanceStateNameTerminated)}, state) {
		return nil
	}
	return &EndedError{doing, state, reason}
}

// stateOf is the state of an instance and the reason for the state, such as
// Client.InternalError: Client error on launch.
func stateOf(in types.Instance) (state, reason string) {
	if in.State != nil {
		state = string(in.State.Name)
	}
	if r := in.StateReason; r != nil {
		code, message := aws.ToString(r.Code), aws.ToString(r.Message)
		reason = message
		if !strings.HasPrefix(message, code) {
			reason = strings.TrimSuffix(code+": "+message, ": ")
		}
	}
	return state, reason
}
