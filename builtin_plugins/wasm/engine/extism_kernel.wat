;; What modules made for Extism import as "extism:host/env": a memory of their own between guest
;; and host. It is instantiated anew for every call, and so is all that it keeps.
;; A block has its length in the eight bytes before it; address 0 is no block.
(module
  (memory (export "memory") 1)
  (global $next (mut i64) (i64.const 8))
  (global $input (mut i64) (i64.const 0))
  (global $input_length (mut i64) (i64.const 0))
  (global $output (mut i64) (i64.const 0))
  (global $output_length (mut i64) (i64.const 0))
  (global $error (mut i64) (i64.const 0))

  (func $at (param $address i64) (result i32)
    (if (i64.gt_u (local.get $address) (i64.const 0xffffffff)) (then unreachable))
    (i32.wrap_i64 (local.get $address)))

  (func (export "alloc") (param $length i64) (result i64)
    (local $block i64) (local $end i64) (local $missing i64)
    (if (i64.eqz (local.get $length)) (then (return (i64.const 0))))
    (if (i64.gt_u (local.get $length) (i64.const 0xffff0000)) (then unreachable))
    (local.set $block (i64.add (global.get $next) (i64.const 8)))
    (local.set $end (i64.and
      (i64.add (i64.add (local.get $block) (local.get $length)) (i64.const 7))
      (i64.const -8)))
    (local.set $missing (i64.sub (local.get $end)
      (i64.mul (i64.extend_i32_u (memory.size)) (i64.const 65536))))
    (if (i64.gt_s (local.get $missing) (i64.const 0)) (then
      (if (i32.eq (i32.const -1) (memory.grow (i32.wrap_i64
            (i64.div_u (i64.add (local.get $missing) (i64.const 65535)) (i64.const 65536)))))
        (then unreachable))))
    (i64.store (call $at (global.get $next)) (local.get $length))
    (global.set $next (local.get $end))
    (local.get $block))

  ;; All is freed with the instance.
  (func (export "free") (param i64))

  (func $length (param $block i64) (result i64)
    (if (result i64) (i32.or
          (i64.lt_u (local.get $block) (i64.const 16))
          (i64.ge_u (local.get $block) (global.get $next)))
      (then (i64.const 0))
      (else (i64.load (call $at (i64.sub (local.get $block) (i64.const 8)))))))
  (export "length" (func $length))
  (export "length_unsafe" (func $length))

  (func (export "load_u8") (param i64) (result i32)
    (i32.load8_u (call $at (local.get 0))))
  (func (export "load_u64") (param i64) (result i64)
    (i64.load (call $at (local.get 0))))
  (func (export "store_u8") (param i64 i32)
    (i32.store8 (call $at (local.get 0)) (local.get 1)))
  (func (export "store_u64") (param i64 i64)
    (i64.store (call $at (local.get 0)) (local.get 1)))

  (func (export "input_set") (param i64 i64)
    (global.set $input (local.get 0)) (global.set $input_length (local.get 1)))
  (func (export "input_length") (result i64) (global.get $input_length))
  (func (export "input_offset") (result i64) (global.get $input))
  (func (export "input_load_u8") (param $i i64) (result i32)
    (if (result i32) (i64.ge_u (local.get $i) (global.get $input_length))
      (then (i32.const 0))
      (else (i32.load8_u (call $at (i64.add (global.get $input) (local.get $i)))))))
  (func (export "input_load_u64") (param $i i64) (result i64)
    (if (result i64) (i64.gt_u (i64.add (local.get $i) (i64.const 8)) (global.get $input_length))
      (then (i64.const 0))
      (else (i64.load (call $at (i64.add (global.get $input) (local.get $i)))))))

  (func (export "output_set") (param i64 i64)
    (global.set $output (local.get 0)) (global.set $output_length (local.get 1)))
  (func (export "output_offset") (result i64) (global.get $output))
  (func (export "output_length") (result i64) (global.get $output_length))
  (func (export "error_set") (param i64) (global.set $error (local.get 0)))
  (func (export "error_get") (result i64) (global.get $error))
  (func (export "reset"))

  ;; There is no configuration, no variable of an earlier call, and no log.
  (func (export "config_get") (param i64) (result i64) (i64.const 0))
  (func (export "var_get") (param i64) (result i64) (i64.const 0))
  (func (export "var_set") (param i64 i64))
  (func (export "http_status_code") (result i32) (i32.const 0))
  (func (export "http_headers") (result i64) (i64.const 0))
  (func (export "get_log_level") (result i32) (i32.const 0x7fffffff))
  (func $log (param i64))
  (export "log_trace" (func $log))
  (export "log_debug" (func $log))
  (export "log_info" (func $log))
  (export "log_warn" (func $log))
  (export "log_error" (func $log)))
