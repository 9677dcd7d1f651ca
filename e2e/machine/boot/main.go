// Command boot boots one of the harness's machines and keeps it until it is
// interrupted or the machine powers itself off. It is for inspecting a base
// system or a captured image by hand:
//
//	go run ./e2e/machine/boot [-kind nspawn|qemu] [-image image.raw]
//
// It needs root. It prints the folder of the lab's files and, when the machine
// is up, the command that logs in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kind := flag.String("kind", string(machine.Nspawn), "kind of machine: nspawn or qemu")
	image := flag.String("image", "", "captured disk image to launch; the base system when empty")
	flag.Parse()
	if err := run(ctx, machine.Kind(*kind), *image); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "boot:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, kind machine.Kind, image string) (err error) {
	lab, root, err := machine.Open(ctx, os.Stderr, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	fmt.Println("lab:", lab.Folder())
	key, err := machine.NewKey("boot")
	if err != nil {
		return err
	}
	identity := filepath.Join(lab.Folder(), "key")
	if err := os.WriteFile(identity, key.PEM, 0o600); err != nil {
		return fmt.Errorf("keeping the key: %w", err)
	}
	config := machine.Config{
		Kind: kind, InstanceID: "i-boot", Image: image,
		AuthorizedKeys: []string{key.Authorized}, Signer: key.Signer,
	}
	if image == "" {
		config.Root = root
	}
	booted, err := lab.Start(ctx, config)
	if err != nil {
		return err
	}
	address, port, user := booted.SSH()
	fmt.Printf("ready: nsenter --net=%s ssh -i %s -p %d -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null %s@%s\n",
		lab.Namespace(), identity, port, user, address)
	return booted.Wait(ctx)
}
