#pragma once

/// \file
/// As much of Apple's Foundation as the Metal delegate names, declared and not defined: with it
/// clang checks the syntax and the types of device.mm on any system. That proves nothing more: not
/// that Apple's own headers agree, not that anything runs.

#include <stddef.h>
#include <stdint.h>

typedef signed char BOOL;
#define YES ((BOOL)1)
#define NO ((BOOL)0)
#define nil __null

typedef unsigned long NSUInteger;

__attribute__((objc_root_class))
@interface NSObject
+ (instancetype)alloc;
- (instancetype)init;
@end

@interface NSString : NSObject
@property(readonly) const char* UTF8String;
+ (instancetype)stringWithUTF8String:(const char*)text;
@end

@interface NSError : NSObject
@property(readonly, copy) NSString* localizedDescription;
@end
