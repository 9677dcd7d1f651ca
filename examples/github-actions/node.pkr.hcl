# Makes an AMI without an instance: the builder qemu makes a disk, and eksnode-ami
# imports the disk. image.yml runs this template on a hosted runner of GitHub Actions.
# README.md has the permissions.

packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
    qemu = {
      source  = "github.com/hashicorp/qemu"
      version = ">= 1.0.9"
    }
  }
}

variable "base_image" {
  description = "Disk image with cloud-init, and with drivers for EC2"
  type        = string
  default     = "https://cloud.debian.org/images/cloud/trixie/latest/debian-13-generic-amd64.qcow2"
}

variable "base_checksum" {
  description = "Checksum of the base image"
  type        = string
  default     = "file:https://cloud.debian.org/images/cloud/trixie/latest/SHA512SUMS"
}

variable "private_key" {
  description = "File with a private SSH key for the build; the public key is beside it, with .pub"
  type        = string
}

variable "region" {
  description = "AWS region of the AMI"
  type        = string
}

variable "name" {
  description = "Beginning of the AMI's name"
  type        = string
  default     = "eksnode-debian13"
}

variable "kubernetes_version" {
  description = "Kubelet version"
  type        = string
  default     = "1.36.3"
}

variable "disk_size" {
  description = "Size of the disk, and of the AMI's root volume"
  type        = string
  default     = "8G"
}

variable "accelerator" {
  description = "Accelerator of QEMU; without KVM, tcg is slow"
  type        = string
  default     = "kvm"
}

variable "parent_ami" {
  description = "Earlier AMI of this template: only blocks that differ are uploaded (default: none)"
  type        = string
  default     = ""
}

variable "reports" {
  description = "Folder for the reports"
  type        = string
  default     = "reports"
}

source "qemu" "node" {
  disk_image       = true
  iso_url          = var.base_image
  iso_checksum     = var.base_checksum
  format           = "raw"
  disk_size        = var.disk_size
  vm_name          = "node.raw"
  output_directory = "output"

  accelerator = var.accelerator
  cpus        = 2
  memory      = 4096
  headless    = true

  # The key is for the build alone. eksnode-scrub removes it.
  cd_label = "cidata"
  cd_content = {
    "meta-data" = jsonencode({ instance-id = "i-packer" })
    "user-data" = "#cloud-config\n${jsonencode({ ssh_authorized_keys = [trimspace(file("${var.private_key}.pub"))] })}\n"
  }
  ssh_username         = "debian"
  ssh_private_key_file = var.private_key
  ssh_timeout          = "15m"

  # See the provisioner "shell". Without this command, the builder kills the machine.
  # The file systems are then not clean, and the disk travels whole.
  shutdown_command = "touch /dev/shm/poweroff"
}

build {
  sources = ["source.qemu.node"]

  provisioner "eksnode" {
    kubernetes_version = var.kubernetes_version
    report             = "${var.reports}/provision.json"
  }

  # The scrub takes sudo away from the user. This unit, which is not on the disk, powers
  # the machine off.
  provisioner "shell" {
    inline = ["sudo systemd-run --path-property=PathExists=/dev/shm/poweroff systemctl poweroff"]
  }

  # Must be the last provisioner: what runs after a scrub is in the image again.
  provisioner "eksnode-scrub" {
    report = "${var.reports}/scrub.json"
  }

  # Audits the disk, uploads it and registers the AMI. A finding stops the build before
  # anything is uploaded.
  post-processors {
    post-processor "eksnode-ami" {
      ami_name        = "${var.name}-${var.kubernetes_version}-${formatdate("YYYYMMDDhhmmss", timestamp())}"
      ami_description = "EKS node, Kubernetes ${var.kubernetes_version}, Debian 13"
      region          = var.region
      parent_ami      = var.parent_ami
    }

    post-processor "manifest" {
      output = "${var.reports}/manifest.json"
    }
  }
}
