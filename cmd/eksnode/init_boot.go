package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

// bootAttempts is how often an instance asks its metadata service while it
// boots: for about a minute when nobody refuses or answers at once.
const bootAttempts = 60

// elsewhere is how long a machine that is no EC2 instance looks for a metadata
// service: one that imitates EC2 has it as soon as the network is up.
const elsewhere = time.Second

// mayJoin says whether a booting machine has anything to join by. A NodeConfig
// in a file is somebody's wish to join: it counts as much as being on EC2, and
// so does a service that this boot has found before.
func (i *initFlags) mayJoin(ctx context.Context, h *host.Host, service *firstboot.Metadata, log func(string)) (bool, error) {
	files := slices.DeleteFunc(slices.Clone(i.sources), func(s string) bool { return s == nodeconfig.UserDataSource })
	if len(files) > 0 {
		if _, err := load(ctx, h, files, nil, func(string) {}); !errors.Is(err, nodeconfig.ErrNone) {
			service.Attempts = bootAttempts
			return true, nil // also when the file is wrong: that is told later
		}
	}
	found := false
	if i.cache != "" {
		var err error
		if found, err = h.Exists(i.cache); err != nil {
			return false, fmt.Errorf("looking for what this boot knows: %w", err)
		}
	}
	if found {
		service.Attempts = bootAttempts
		return true, nil
	}
	return awaitIMDS(ctx, h, service, elsewhere, log)
}

// awaitIMDS says whether the machine has a metadata service, and prepares the
// client for it. An EC2 instance has one, however late it answers; any other
// machine is given patience.
func awaitIMDS(ctx context.Context, h *host.Host, service *firstboot.Metadata, patience time.Duration, log func(string)) (bool, error) {
	is, why, err := bootstrap.IsEC2(h)
	if err != nil {
		return false, err
	}
	if !is {
		if err := service.Probe(ctx, patience); err != nil {
			if ctx.Err() != nil {
				return false, err
			}
			log(fmt.Sprintf("nothing to do: this is no EC2 instance (%s), and no instance metadata service answers", why))
			return false, nil
		}
	}
	service.Attempts = bootAttempts
	return true, nil
}
