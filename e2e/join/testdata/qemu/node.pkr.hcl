# Makes an AMI of a node with the qemu builder, from a disk image with cloud-init.
# There is no instance.

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

variable "disk" {
  type = string
}

variable "private_key" {
  type = string
}

variable "public_key" {
  type = string
}

variable "kubernetes_version" {
  type = string
}

variable "source_url" {
  type = string
}

source "qemu" "node" {
  disk_image       = true
  iso_url          = var.disk
  iso_checksum     = "none"
  skip_resize_disk = true
  format           = "qcow2"
  vm_name          = "node.qcow2"
  output_directory = "output"

  accelerator = "tcg"
  cpu_model   = "qemu64"
  cpus        = 2
  memory      = 2048
  headless    = true

  cd_label = "cidata"
  cd_content = {
    "meta-data" = jsonencode({ instance-id = "i-qemu-builder" })
    "user-data" = "#cloud-config\n${jsonencode({ ssh_authorized_keys = [var.public_key] })}\n"
  }

  ssh_username         = "admin"
  ssh_private_key_file = var.private_key
  ssh_timeout          = "15m"
  shutdown_command     = "touch /dev/shm/poweroff"
}

build {
  sources = ["source.qemu.node"]

  provisioner "eksnode" {
    kubernetes_version = var.kubernetes_version
    source_url         = var.source_url
    allow_http         = true
  }

  # The scrub takes away sudo. This unit, which is not on the disk, lets the shutdown
  # command power off.
  provisioner "shell" {
    inline = ["sudo systemd-run --path-property=PathExists=/dev/shm/poweroff systemctl poweroff"]
  }

  provisioner "eksnode-scrub" {}

  post-processor "eksnode-ami" {
    ami_name = "node"
  }
}
