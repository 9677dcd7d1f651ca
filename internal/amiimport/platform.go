package amiimport

import (
	"cmp"
	"errors"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// architectures are EC2's names of architectures, by Go's.
var architectures = map[string]string{"amd64": x86, "arm64": arm}

// platform fills in the architecture and the boot mode.
func (r *run) platform() error { return errors.Join(r.architecture(), r.bootMode()) }

// architecture finds the architecture: the UEFI loader shows it, and /bin/sh. A disk
// that only a BIOS boots is for x86.
func (r *run) architecture() error {
	const field = surface.Name("ami_architecture")
	loader, programs := r.layout.Boot.Arch, ""
	if r.result.Audit != nil {
		programs = architectures[r.result.Audit.Machine.Arch]
	}
	if loader == "" && r.layout.Boot.BIOS && !r.layout.Boot.UEFI {
		loader = x86
	}
	found := cmp.Or(programs, loader)
	switch {
	case programs != "" && loader != "" && programs != loader:
		return surface.Errorf("%s: the boot loader of the disk is for %s, but its programs are for %s", field, loader, programs)
	case r.Spec.Architecture == "" && found == "":
		return surface.Errorf("%s: the disk does not show its architecture; set %s or %s", field, x86, arm)
	case found != "" && r.Spec.Architecture != "" && found != r.Spec.Architecture:
		return surface.Errorf("%s: the disk is for %s, not for %s", field, found, r.Spec.Architecture)
	}
	r.Spec.Architecture = cmp.Or(r.Spec.Architecture, found)
	return nil
}

// bootMode finds the boot mode.
func (r *run) bootMode() error {
	const field = surface.Name("boot_mode")
	boot, mode := r.layout.Boot, r.layout.Boot.Mode()
	if mode == both && (r.Spec.TPM != "" || r.Spec.Architecture == arm) {
		mode = uefi
	}
	switch set := r.Spec.BootMode; {
	case set == "" && mode == "":
		return surface.Errorf("%s: the disk has no boot loader that BIOS or UEFI finds, so instances would not start; set a boot mode if that is wrong", field)
	case set == "":
		r.Spec.BootMode = mode
	case mode == "":
		r.Say("no boot loader was found on the disk; the AMI gets the boot mode %s", set)
	case set == bios && !boot.BIOS, strings.HasPrefix(set, uefi) && !boot.UEFI, set == both && !boot.BIOS:
		return surface.Errorf("%s: the disk boots with %s, not with %s", field, r.layout.Boot.Mode(), set)
	}
	set := r.Spec.BootMode
	switch {
	case r.Spec.TPM != "" && r.Spec.Architecture == arm:
		return surface.Errorf("%s: %s", surface.Name("tpm_support"), noTPM)
	case r.Spec.TPM != "" && set != uefi:
		return surface.Errorf("%s: a TPM needs the boot mode %s, not %s", surface.Name("tpm_support"), uefi, set)
	case r.Spec.UEFIData != "" && set == bios:
		return surface.Errorf("%s has no effect with the boot mode %s", surface.Name("uefi_data"), set)
	case r.Spec.Architecture == arm && set != uefi:
		return surface.Errorf("%s: instances for arm64 boot with %s, not with %s", field, uefi, set)
	}
	return nil
}
