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

// elsewhere is the wait for a metadata service on machines that are not EC2
// instances. A machine that imitates EC2 has the service as soon as the network is
// up.
const elsewhere = time.Second

// mayJoin reports whether a booting machine may have a NodeConfig: in a file, in the
// cache of this boot, or in the metadata service.
func (i *initFlags) mayJoin(ctx context.Context, h *host.Host, service *firstboot.Metadata, log func(string)) (bool, error) {
	files := slices.DeleteFunc(slices.Clone(i.sources), func(s string) bool { return s == nodeconfig.UserDataSource })
	if len(files) > 0 {
		if _, err := load(ctx, h, files, nil, func(string) {}); !errors.Is(err, nodeconfig.ErrNone) {
			service.AtBoot(log)
			return true, nil // also if the file is invalid: resolve reports the error
		}
	}
	found := false
	if i.cache != "" {
		var err error
		if found, err = h.Exists(i.cache); err != nil {
			return false, fmt.Errorf("looking for the cache of this boot: %w", err)
		}
	}
	if found {
		service.AtBoot(log)
		return true, nil
	}
	return awaitIMDS(ctx, h, service, elsewhere, log)
}

// awaitIMDS reports whether the machine has a metadata service, and makes the client
// patient. An EC2 instance always has this service, even if it starts late. On other
// machines awaitIMDS waits for patience.
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
			log(fmt.Sprintf("nothing to do: this is not an EC2 instance (%s), and no instance metadata service answers", why))
			return false, nil
		}
	}
	service.AtBoot(log)
	return true, nil
}
